//! How long it takes to keep loss curves fitted, and to look ahead on them.

use std::hint::black_box;

use divan::Bencher;
use trainyard_sched::estimate::{Expected, Fitting, LossHistory};
use trainyard_sched::model::{Convergence, Curve, DeclaredLoss, LossPoint};

fn main() {
    divan::main();
}

/// Points of history before the report that is measured.
const KNOWN: u32 = 200;

fn noisy(curve: Curve, k: u32) -> LossPoint {
    // A cheap substitute for noise: the same on each run, and not of the curve's kind.
    let noise = 0.002 * (f64::from(k) * 12.9898).sin();
    LossPoint { iteration: f64::from(k), loss: curve.loss(f64::from(k)) * (1.0 + noise), accuracy: None }
}

const SUBLINEAR: Curve = Curve::Sublinear { a: 1e-3, b: 0.05, c: 0.5, d: 0.2 };
const GEOMETRIC: Curve = Curve::Geometric { amplitude: 2.0, mu: 0.98, c: 0.3 };

fn one_report(bencher: Bencher<'_, '_>, curve: Curve, convergence: Option<Convergence>) {
    let declared = DeclaredLoss { convergence, ..DeclaredLoss::default() };
    let fitting = Fitting::default();
    let mut history = LossHistory::default();
    for k in 0..KNOWN {
        history.report(&[noisy(curve, k)], &declared, Some(&fitting));
    }
    assert!(history.fit().is_some());
    let next = [noisy(curve, KNOWN)];
    bencher.with_inputs(|| history.clone()).bench_local_refs(|history| {
        history.report(black_box(&next), &declared, Some(&fitting));
    });
}

#[divan::bench]
fn refit_sublinear(bencher: Bencher<'_, '_>) {
    one_report(bencher, SUBLINEAR, Some(Convergence::Sublinear));
}

#[divan::bench]
fn refit_geometric(bencher: Bencher<'_, '_>) {
    one_report(bencher, GEOMETRIC, Some(Convergence::Linear));
}

#[divan::bench(args = ["sublinear", "geometric"])]
fn refit_unknown_family(bencher: Bencher<'_, '_>, truth: &str) {
    one_report(bencher, if truth == "sublinear" { SUBLINEAR } else { GEOMETRIC }, None);
}

#[divan::bench]
fn refit_non_convex(bencher: Bencher<'_, '_>) {
    one_report(bencher, SUBLINEAR, Some(Convergence::NonConvex));
}

/// What a decision of SLAQ with 16,000 cores looks up.
#[divan::bench(args = ["sublinear", "geometric"])]
fn look_ahead_20000_times(bencher: Bencher<'_, '_>, family: &str) {
    let curve = if family == "sublinear" { SUBLINEAR } else { GEOMETRIC };
    let expected = Expected::Fitted { curve, origin: 3.0 };
    bencher.bench_local(|| {
        (0..20_000).map(|k| black_box(expected).loss(black_box(200.0 + 0.01 * f64::from(k)))).sum::<f64>()
    });
}
