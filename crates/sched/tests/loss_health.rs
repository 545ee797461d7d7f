//! What is said of losses that are not as losses should be: outliers, blow-ups, plateaus, noise, and scores taken for losses.

use trainyard_sched::estimate::{Fitting, LossHealth, LossHistory, LossTrend};
use trainyard_sched::model::{DeclaredLoss, LossPoint};

/// What is said of these losses, one an iteration from 0 on.
fn health(count: u32, loss: impl Fn(f64) -> f64) -> LossHealth {
    let point = |k: u32| LossPoint { iteration: f64::from(k), loss: loss(f64::from(k)), accuracy: None };
    let mut history = LossHistory::default();
    history.report(
        &(0..count).map(point).collect::<Vec<_>>(),
        &DeclaredLoss::default(),
        Some(&Fitting::default()),
    );
    history.health()
}

/// Noise between -1 and 1 that is the same for one iteration every time: the fractional part of a golden angle, scrambled.
fn noise(k: f64) -> f64 {
    let scrambled = (k * 12.9898 + 4.1).sin() * 43_758.545;
    2.0 * (scrambled - scrambled.floor()) - 1.0
}

fn falling(k: f64) -> f64 {
    1.0 + 3.0 * 0.95_f64.powf(k)
}

#[test]
fn a_score_that_is_taken_for_a_loss_is_found_through_noise() {
    let score = |k: f64| 0.9 - 0.8 / (1.0 + 0.2 * k) + 0.05 * noise(k);
    assert_eq!(health(80, score).trend, LossTrend::Backwards);
    // One that rose at once and wobbles since.
    let early = |k: f64| if k < 4.0 { 0.1 } else { 0.9 + 0.02 * noise(k) };
    assert_eq!(health(80, early).trend, LossTrend::Backwards);
    assert_eq!(health(80, |k| falling(k) + 0.1 * noise(k)).trend, LossTrend::Falling);
}

#[test]
fn an_outlier_is_named_and_makes_nothing_flat_or_diverging() {
    for at in [30.0, 70.0, 78.0, 79.0] {
        let told = health(80, |k| if k == at { 1e6 } else { falling(k) });
        assert_eq!((told.trend, told.outlier), (LossTrend::Falling, Some(at)));
        assert!(!told.is_healthy());
    }
    // The first loss of a network is often far above all others, and that is no outlier.
    let first = health(80, |k| if k == 0.0 { 1e6 } else { falling(k) });
    assert_eq!((first.trend, first.outlier), (LossTrend::Falling, None));
}

#[test]
fn what_blew_up_diverges_also_where_it_stays_up() {
    let stays = health(80, |k| if k < 60.0 { falling(k) } else { 1e6 + 1e-3 * k });
    let LossTrend::Diverging { since } = stays.trend else { panic!("{stays:?}") };
    assert!((57.0..=60.0).contains(&since), "{since}");
    let explodes = health(80, |k| if k < 70.0 { falling(k) } else { 1e3 * 3_f64.powf(k - 70.0) });
    assert!(matches!(explodes.trend, LossTrend::Diverging { since } if (67.0..=70.0).contains(&since)));
    // Noise before it moves the beginning by no more than noise can.
    let noisy = health(200, |k| if k < 120.0 { 1.0 + 0.1 * noise(k) } else { 1.0 + (k - 120.0) });
    let LossTrend::Diverging { since } = noisy.trend else { panic!("{noisy:?}") };
    assert!((115.0..=125.0).contains(&since), "{since}");
}

#[test]
fn flat_is_since_when_it_became_so() {
    let plateau = health(120, |k| falling(k.min(30.0)));
    assert!(
        matches!(plateau.trend, LossTrend::Flat { since } if (28.0..=31.0).contains(&since)),
        "{plateau:?}"
    );
    assert_eq!(health(120, |_| 2.0).trend, LossTrend::Constant);
    assert_eq!(health(80, falling).trend, LossTrend::Falling);
    assert_eq!(health(3, falling).trend, LossTrend::Unknown);
}

#[test]
fn noise_alone_has_no_trend() {
    let mut told = Vec::new();
    for offset in 0..40_u32 {
        told.push(health(80, |k| 2.0 + 0.1 * noise(k + 100.0 * f64::from(offset))).trend);
    }
    let unclear = told.iter().filter(|trend| **trend == LossTrend::Unclear).count();
    assert!(unclear >= 34, "{told:?}");
}
