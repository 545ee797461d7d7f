//! Tests of what is drawn, whatever the preset.

use super::*;

fn philly(jobs: u32) -> Parameters {
    Parameters { preset: "philly".to_owned(), jobs: Some(jobs), ..Parameters::default() }
}

fn gpu_time_s(workload: &Workload) -> f64 {
    let of = |(job, truth): &(Arc<Job>, Truth)| job.shape.minimum().gpu_milli as f64 / 1e3 * truth.iterations;
    workload.jobs.iter().map(of).sum()
}

#[test]
fn the_same_seed_gives_the_same_jobs_and_another_seed_does_not() {
    let first = generate(&philly(1000)).unwrap();
    assert_eq!(first.jobs, generate(&philly(1000)).unwrap().jobs);
    let other = generate(&Parameters { seed: Seed(1), ..philly(1000) }).unwrap();
    assert_ne!(first.jobs, other.jobs);
}

#[test]
fn jobs_are_numbered_in_the_order_of_arrival() {
    let workload = generate(&philly(5000)).unwrap();
    assert!(workload.jobs.is_sorted_by_key(|(job, _)| job.submitted));
    assert!(workload.jobs.iter().enumerate().all(|(i, (job, _))| job.id.index() == i));
}

#[test]
fn sizes_and_run_times_follow_the_published_figures() {
    let workload = generate(&Parameters { seed: Seed(1), ..philly(100_000) }).unwrap();
    let single: Vec<f64> = {
        let one = |(job, truth): &(Arc<Job>, Truth)| {
            (job.shape.minimum().gpu_milli == 1000).then_some(truth.iterations)
        };
        workload.jobs.iter().filter_map(one).collect()
    };
    let share = single.len() as f64 / 1e5;
    assert!((share - 0.9317).abs() < 0.005, "{share}");
    let mut sorted = single;
    sorted.sort_by(f64::total_cmp);
    for (p, seconds) in [(0.5, 1117.0), (0.9, 8512.0), (0.99, 135_404.0)] {
        let found = sorted[(p * sorted.len() as f64) as usize];
        assert!((found / seconds - 1.0).abs() < 0.1, "{p}: {found} against {seconds}");
    }
    let completed = workload.jobs.iter().filter(|(_, truth)| truth.ending == Ending::Completed).count();
    assert!((completed as f64 / 1e5 - 0.693).abs() < 0.01);
}

#[test]
fn the_load_is_met_by_the_length_of_the_trace() {
    let load = Load { fraction: 0.7, gpus: 2474 };
    let workload = generate(&Parameters { load: Some(load), ..philly(20_000) }).unwrap();
    let span_s = workload.jobs.last().unwrap().0.submitted.as_secs_f64();
    let found = gpu_time_s(&workload) / (2474.0 * span_s);
    assert!((found / 0.7 - 1.0).abs() < 0.02, "{found}");
}

#[test]
fn the_busy_day_meets_its_load_with_run_times_that_are_hardly_scaled() {
    for seed in 0..5 {
        let workload = generate(&Parameters { seed: Seed(seed), ..Parameters::default() }).unwrap();
        assert_eq!(workload.jobs.len(), 600);
        assert!(workload.jobs.last().unwrap().0.submitted < Time::from_secs(86_400));
        let found = gpu_time_s(&workload) / (512.0 * DAY_S);
        assert!((found - 0.9).abs() < 1e-3, "{found}");
        let scaled = workload.report.findings.iter().find(|f| f.what.contains("multiplied")).unwrap();
        let factor: f64 = scaled.what.split(' ').nth(5).unwrap().parse().unwrap();
        assert!((0.7..1.4).contains(&factor), "seed {seed}: {factor}");
    }
}

#[test]
fn days_and_load_without_a_number_give_enough_jobs() {
    let load = Some(Load { fraction: 0.5, gpus: 512 });
    let parameters = Parameters { days: Some(2.0), load, ..Parameters::default() };
    let workload = generate(&parameters).unwrap();
    assert!(gpu_time_s(&workload) >= 0.5 * 512.0 * 2.0 * DAY_S);
    assert!(workload.jobs.len() > 100);
}

#[test]
fn a_factor_on_the_load_gives_more_jobs_in_the_same_time() {
    let load = Some(Load { fraction: 0.5, gpus: 512 });
    for plain in [
        Parameters::default(),
        philly(3000),
        Parameters { load, ..Parameters::default() },
        Parameters { days: Some(2.0), ..Parameters::default() },
    ] {
        let workload = generate(&plain).unwrap();
        assert_eq!(generate(&plain.clone().times(1.0).unwrap()).unwrap().jobs, workload.jobs, "{plain:?}");
        let more = generate(&plain.clone().times(1.5).unwrap()).unwrap();
        assert_eq!(more.jobs.len(), workload.jobs.len() * 3 / 2);
        let days = |workload: &Workload| workload.jobs.last().unwrap().0.submitted.as_secs_f64() / DAY_S;
        // Where days follow from the load, they follow from what was drawn, too.
        let slack = if plain.load.is_some() { 0.25 } else { 0.1 };
        assert!((days(&more) / days(&workload) - 1.0).abs() < slack, "{plain:?}");
    }
    let busy = Parameters::default().times(1.5).unwrap();
    let found = gpu_time_s(&generate(&busy).unwrap()) / (512.0 * DAY_S);
    assert!((found - 1.35).abs() < 1e-3, "{found}");
}

#[test]
fn jobs_that_learn_are_drawn_with_their_preset() {
    let preset = || Parameters { preset: "slaq-w".to_owned(), seed: Seed(5), ..Parameters::default() };
    let workload = generate(&preset()).unwrap();
    assert_eq!(
        workload.jobs,
        Learning::default().draw(Seed(5), &Tenants::default(), MoveCost::default()).jobs
    );
    assert_eq!((workload.jobs.len(), workload.report.kept), (160, 160));
    let more = generate(&preset().times(2.0).unwrap()).unwrap();
    let last_s = more.jobs.last().unwrap().0.submitted.as_secs_f64();
    assert!(more.jobs.len() == 320 && (1800.0..3000.0).contains(&last_s), "{last_s}");
    let load = Some(Load { fraction: 0.5, gpus: 8 });
    assert!(matches!(generate(&Parameters { load, ..preset() }), Err(GenerateError::NoLoad { .. })));
    let silent = generate(&Parameters { declared: Declaring::Absent, ..preset() }).unwrap();
    assert!(silent.jobs.iter().all(|(job, _)| job.declared.loss.curve.is_none()));
}

#[test]
fn impossible_parameters_are_refused_with_their_value() {
    let of = |change: fn(&mut Parameters)| {
        let mut parameters = philly(10);
        change(&mut parameters);
        generate(&parameters).unwrap_err()
    };
    assert_eq!(of(|p| p.jobs = Some(0)), GenerateError::Jobs { jobs: 0 });
    assert!(matches!(of(|p| p.days = Some(f64::NAN)), GenerateError::Days { .. }));
    assert!(matches!(of(|p| p.load = Some(Load { fraction: 0.0, gpus: 8 })), GenerateError::Load { .. }));
    let hint = of(|p| p.preset = "phily".to_owned()).to_string();
    assert!(hint.contains("did you mean `philly`"), "{hint}");
}
