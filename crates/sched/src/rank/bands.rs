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

    /// How long a job in `band` with so much service may run on so many GPUs until it is demoted.
    pub fn until_demotion(&self, band: u8, served_gpu_s: f64, gpus: f64) -> Option<Span> {
        let upper = self.upper_gpu_s(band)?;
        // Rounded up, so that the threshold is reached when the time has come.
        let seconds = ((upper - served_gpu_s) / gpus).max(0.0);
        Some(Span((seconds * 1e6).ceil() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_say_when_a_job_leaves_them() {
        let bands = Bands::new(&[3600.0, 7200.0]).unwrap();
        assert_eq!(bands.last(), 2);
        assert_eq!(bands.until_demotion(0, 1600.0, 8.0), Some(Span::from_secs(250)));
        assert_eq!(bands.until_demotion(1, 9000.0, 8.0), Some(Span::ZERO));
        assert_eq!(bands.until_demotion(2, 9000.0, 8.0), None);
        assert!(Bands::new(&[2.0, 1.0]).is_none() && Bands::new(&[0.0]).is_none());
        assert!(Bands::new(&[f64::NAN]).is_none());
    }
}
