//! Service bands: the more a job has had, the later its turn (Tiresias, NSDI 2019, section 3.2).

use crate::model::Span;

/// Thresholds between bands, ascending, in GPU-seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Bands(Vec<f64>);

impl Bands {
    /// Bands with these thresholds; `None` unless they are positive and ascending.
    pub fn new(thresholds_gpu_s: &[f64]) -> Option<Self> {
        let ascending = thresholds_gpu_s.windows(2).all(|pair| pair[0] < pair[1]);
        let sound = thresholds_gpu_s.iter().all(|threshold| threshold.is_finite() && *threshold > 0.0);
        (ascending && sound).then(|| Self(thresholds_gpu_s.to_vec()))
    }

    /// The last band.
    pub fn last(&self) -> u8 {
        self.0.len() as u8
    }

    /// The upper threshold of a band; none for the last.
    pub fn upper_gpu_s(&self, band: u8) -> Option<f64> {
        self.0.get(usize::from(band)).copied()
    }

    /// The upper threshold of a band in thousandths of a GPU times microseconds; none for the last.
    pub fn upper_gpu_milli_us(&self, band: u8) -> Option<u64> {
        self.upper_gpu_s(band).map(|upper| (upper * 1e9).round() as u64)
    }

    /// How long a job in `band` with so much service may run on so many thousandths of a GPU until it is demoted.
    ///
    /// In whole numbers, so that the moment is the same whenever it is asked for on the way.
    pub fn until_demotion(&self, band: u8, served_gpu_milli_us: u64, gpu_milli: u64) -> Option<Span> {
        let left = self.upper_gpu_milli_us(band)?.saturating_sub(served_gpu_milli_us);
        // Rounded up, so that the threshold is reached when the time has come.
        // Who holds no GPU gets no service, and stays.
        (gpu_milli > 0).then(|| Span(left.div_ceil(gpu_milli)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_say_when_a_job_leaves_them() {
        let bands = Bands::new(&[3600.0, 7200.0]).unwrap();
        assert_eq!(bands.last(), 2);
        let gpu_s = |seconds: u64| seconds * 1_000_000_000;
        assert_eq!(bands.until_demotion(0, gpu_s(1600), 8000), Some(Span::from_secs(250)));
        assert_eq!(bands.until_demotion(1, gpu_s(9000), 8000), Some(Span::ZERO));
        assert_eq!(bands.until_demotion(2, gpu_s(9000), 8000), None);
    }

    #[test]
    fn the_moment_of_demotion_is_the_same_whenever_it_is_asked_for() {
        let bands = Bands::new(&[3443.0]).unwrap();
        let gpu_milli = 3700;
        let whole = bands.until_demotion(0, 17, gpu_milli).unwrap();
        for passed in (0..whole.0).step_by(999_983) {
            let left = bands.until_demotion(0, 17 + passed * gpu_milli, gpu_milli).unwrap();
            assert_eq!(passed + left.0, whole.0);
        }
        assert!(Bands::new(&[2.0, 1.0]).is_none() && Bands::new(&[0.0]).is_none());
        assert!(Bands::new(&[f64::NAN]).is_none());
    }
}
