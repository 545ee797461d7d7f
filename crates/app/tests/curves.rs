//! Losses through the binary: fitted, looked at, and replayed as the truth of jobs.

mod program;

use std::fmt::Write as _;

use program::{ends_with, scratch};
use serde_json::Value;

/// 3 x 0.97^k + 1, as a program would say it.
fn log(count: u32) -> String {
    (0..count).fold("starting\n".to_owned(), |mut text, k| {
        let _ = writeln!(text, "step {k}: loss = {:.6}", 3.0 * 0.97_f64.powi(k as i32) + 1.0);
        text
    })
}

#[test]
fn a_log_is_fitted_and_drawn() {
    let place = scratch(&[("train.log", &log(80))]);
    let fit = ["curve", "fit", "train.log", "--convergence", "linear", "--out", "page"];
    let (text, _) = ends_with(place.path(), 0, &fit, b"");
    assert!(text.contains("geometric") && text.contains("tends to  1.0000"), "{text}");
    let page = std::fs::read_to_string(place.path().join("page/report.html")).unwrap();
    assert!(page.contains("Loss curves of train.log") && page.contains("expected ten points before"));
    let (json, _) = ends_with(place.path(), 0, &[&fit[..5], &["--output", "json"]].concat(), b"");
    let answers: Value = serde_json::from_str(&json).unwrap();
    let answer = &answers[0];
    assert_eq!((&answer["schema"], &answer["points"]), (&"trainyard.curve/2".into(), &80.into()));
    // 3 x 0.97^89 + 1 after ten more iterations.
    let expected = 3.0 * 0.97_f64.powi(89) + 1.0;
    let ahead = answer["ahead"][0]["loss"].as_f64().unwrap();
    assert!((ahead - expected).abs() < 1e-4, "{ahead} against {expected}");
    assert!(answer["looking_back"]["mean_error"].as_f64().unwrap() < 1e-4);
}

#[test]
fn bad_lines_count_only_when_strict_and_several_curves_can_be_told_apart() {
    let mut table = "job,iteration,loss\n".to_owned();
    for k in 1..30 {
        let _ = writeln!(table, "a,{k},{}\nb,{k},{}", 1.0 / f64::from(k), 5.0 + 2.0 / f64::from(k));
    }
    table.push_str("a,30,nan\n");
    let place = scratch(&[("two.csv", &table)]);
    let (json, told) = ends_with(place.path(), 0, &["curve", "fit", "two.csv", "--output", "json"], b"");
    let answers: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> =
        answers.as_array().unwrap().iter().filter_map(|one| one["curve"].as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(told.contains("1 row left out") && told.contains("two.csv:60"), "{told}");
    ends_with(place.path(), 3, &["curve", "fit", "two.csv", "--strict"], b"");
    let (text, _) = ends_with(place.path(), 0, &["curve", "fit", "two.csv", "--curve", "b"], b"");
    assert!(text.contains("curve  b") && !text.contains("curve  a"), "{text}");
    let (_, told) = ends_with(place.path(), 2, &["curve", "fit", "two.csv", "--curve", "c"], b"");
    assert!(told.contains("has no curve `c`"), "{told}");
    let (_, told) = ends_with(place.path(), 2, &["curve", "fit", "two.csv", "--decay", "0"], b"");
    assert!(told.contains("above 0 and up to 1"), "{told}");
}

#[test]
fn a_recorded_loss_is_what_a_job_reports() {
    let curves = "curve,iteration,loss\nreal,0,9\nreal,10,4\nreal,20,3\n";
    let jobs = "job_id,submit_s,duration_s,gpus,iterations,loss,convergence\nj,0,200,1,20,real,non_convex\n";
    let place = scratch(&[("curves.csv", curves), ("jobs.csv", jobs)]);
    let run = [
        "run",
        "--trace",
        "jobs.csv",
        "--curves",
        "curves.csv",
        "--cluster",
        "1x4:v100",
        "--report-every",
        "50s",
    ];
    ends_with(place.path(), 0, &[&run[..], &["--policy", "fifo", "--out", "r"]].concat(), b"");
    let journal = std::fs::read_to_string(place.path().join("r/journal.jsonl")).unwrap();
    let mut losses = Vec::new();
    for line in journal.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        collect(&record, &mut losses);
    }
    // Every iteration is reported once, as it was recorded; between 0 and 10 the loss is straight.
    let iterations: Vec<f64> = losses.iter().map(|(k, _)| *k).collect();
    assert_eq!(iterations, (0..=20).map(f64::from).collect::<Vec<_>>());
    for (k, loss) in losses {
        let recorded = if k <= 10.0 { 9.0 - 0.5 * k } else { 5.0 - 0.1 * k };
        assert!((loss - recorded).abs() < 1e-9, "{k}: {loss}");
    }
    ends_with(place.path(), 0, &["replay", "r"], b"");
    let nameless = ["run", "--trace", "jobs.csv", "--cluster", "1x4:v100", "--policy", "fifo", "--out", "s"];
    let (_, told) = ends_with(place.path(), 2, &nameless, b"");
    assert!(told.contains("--curves FILE"), "{told}");
}

/// A table of one curve, `step` from 1 on.
fn table(name: &str, count: u32, loss: impl Fn(f64) -> f64) -> String {
    let row = |text: String, k: u32| format!("{text}{k},{}\n", loss(f64::from(k)));
    (1..=count).fold(format!("step,{name}\n"), row)
}

/// What `curve fit` says of a table: its answer, and what stands on standard error.
fn fitted(table: &str, rest: &[&str]) -> (String, String) {
    let place = scratch(&[]);
    ends_with(place.path(), 0, &[&["curve", "fit", "-"], rest].concat(), table.as_bytes())
}

fn falling(k: f64) -> f64 {
    3.0 * 0.95_f64.powf(k) + 1.0
}

#[test]
fn a_score_is_a_score_by_its_name_and_what_may_be_either_is_told() {
    // Wobbles, so that it falls again and again.
    let score = |k: f64| 0.9 - 0.8 / (1.0 + 0.2 * k) + 0.02 * (k * 2.4).sin();
    for name in ["accuracy", "score", "val_acc"] {
        let (text, told) = fitted(&table(name, 80, score), &[]);
        assert!(
            told.contains(&format!("`{name}` is taken for a score")) && !text.contains("caution"),
            "{text}"
        );
        let (text, told) = fitted(&table(name, 80, score), &["--better", "lower"]);
        assert!(told.is_empty() && text.contains("if it is a score, say --better higher"), "{text}");
    }
    let (text, told) = fitted(&table("metric", 80, score), &[]);
    assert!(told.contains("`metric` may be a loss or a score"), "{told}");
    assert!(text.contains("it only rises") && text.contains("tends to  unknown"), "{text}");
    let (text, told) = fitted(&table("metric", 80, score), &["--better", "higher"]);
    assert!(told.is_empty() && !text.contains("caution"), "{told}{text}");
    let (_, told) = fitted(&table("loss", 80, falling), &[]);
    assert_eq!(told, "");
    // The formula is that of the score and not of its negative.
    let (text, _) =
        fitted(&table("score", 80, |k| 0.9 - 0.8 * 0.95_f64.powf(k)), &["--convergence", "linear"]);
    assert!(text.contains("0.9 - 0.76 * 0.95^k, k counted from 1"), "{text}");
}

#[test]
fn what_a_curve_is_not_to_be_believed_for_is_said() {
    let say = |loss: &dyn Fn(f64) -> f64, count| fitted(&table("loss", count, loss), &[]).0;
    let outlier = say(&|k| if k == 70.0 { 1e6 } else { falling(k) }, 79);
    assert!(outlier.contains("an outlier, 1.0000e6 at iteration 70, bends the curve"), "{outlier}");
    assert!(!outlier.contains("flat already"), "{outlier}");
    let stays_up = say(&|k| if k < 60.0 { falling(k) } else { 1e6 + k }, 79);
    assert!(stays_up.contains("diverging: it has got worse since iteration 59"), "{stays_up}");
    assert!(stays_up.contains("flattens  unknown") && stays_up.contains("tends to  unknown"), "{stays_up}");
    assert!(say(&falling, 6).contains("6 points are too few"));
    assert!(say(&|_| 2.0, 1).contains("1 point is too few"));
    let noise = say(&|k| 2.0 + 0.1 * (k * k * 1.7).sin(), 79);
    assert!(noise.contains("no trend stands out from the noise"), "{noise}");
    let noisy = say(&|k| falling(k) + 0.6 * (k * k * 1.7).sin(), 79);
    assert!(noisy.contains("noisy: about the curve it scatters by"), "{noisy}");
    assert!(say(&|k| 100.0 - k, 79).contains("it has hardly bent yet"));
    assert!(!say(&falling, 79).contains("caution"));
}

#[test]
fn a_plateau_flattened_when_it_did_and_a_constant_never_changed() {
    // Of 300 points every second one of the older half is kept, so 31 is the first flat one that is known.
    let plateau = fitted(&table("loss", 300, |k| falling(k.min(30.0))), &[]).0;
    assert!(plateau.contains("flattens  flat already, since iteration 31"), "{plateau}");
    for count in [2, 79] {
        let constant = fitted(&table("loss", count, |_| 2.0), &[]).0;
        assert!(constant.contains("flattens  it never changed"), "{constant}");
        assert!(constant.contains("none, as all points are the same"), "{constant}");
    }
}

#[test]
fn no_answer_has_a_number_that_is_none_or_a_power_of_one() {
    let logs: [&dyn Fn(f64) -> f64; 7] = [
        &|k| if k == 79.0 { 1e6 } else { falling(k) },
        &|k| if k == 20.0 { 1e300 } else { falling(k) },
        &|k| 2.0 + 0.1 * (k * k * 1.7).sin(),
        &|k| 1e3 * 3_f64.powf(k),
        &|k| 1e-300 * falling(k),
        &|k| 1e300 * falling(k),
        &|k| f64::from(u8::from(k > 40.0)),
    ];
    for (i, loss) in logs.iter().enumerate() {
        for convergence in ["sublinear", "linear", "non-convex"] {
            for count in [2, 5, 79] {
                let (text, _) = fitted(&table("loss", count, loss), &["--convergence", convergence]);
                for bad in ["inf", "NaN", " 1^k", "0 k", "+- -"] {
                    let found = text.lines().find(|line| line.contains(&format!(" {}", bad.trim_start())));
                    assert_eq!(found, None, "log {i}, {convergence}, {count} points: {text}");
                }
            }
        }
    }
    let level = fitted(&table("loss", 79, |k| if k < 60.0 { falling(k) } else { 1e6 + k }), &[]).0;
    assert!(level.contains("curve fitted  a constant, "), "{level}");
}

#[test]
fn a_target_is_reached_or_expected_or_out_of_reach() {
    let say = |target| {
        let text = fitted(&table("loss", 79, falling), &["--target", target]).0;
        text.lines().find(|line| line.contains("target")).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(say("2"), "target  2.0000 was reached at iteration 22");
    // 3 x 0.95^k is 0.02 at k = 97.7.
    assert!(say("1.02").starts_with("target  1.0200 is expected at iteration 97.6"), "{}", say("1.02"));
    assert!(say("1").contains("is where the curve tends to"), "{}", say("1"));
    assert!(say("0.5").contains("is not reachable by this curve"), "{}", say("0.5"));
    let json = fitted(&table("loss", 79, falling), &["--target", "0.5", "--output", "json"]).0;
    let answers: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answers[0]["target"]["reach"], "not_reachable");
    assert!((answers[0]["target"]["asymptote"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    let diverging = |k: f64| if k < 60.0 { falling(k) } else { 1e6 };
    let text = fitted(&table("loss", 79, diverging), &["--target", "0.5"]).0;
    assert!(text.contains("nothing can be said of when 0.50000 is reached"), "{text}");
}

/// Two elastic jobs whose losses are not declared, so that they have to be fitted.
const TWO: &str = "job_id,submit_s,duration_s,gpus,min_gpus,max_gpus,iterations,work_s,fixed_s,loss\n\
    a,0,1000,4,1,8,1000,3.2,0.2,geometric 2 0.99 0.1\nb,10,1000,4,1,8,1000,3.2,0.2,geometric 2 0.99 0.1\n";

fn run_two(place: &std::path::Path, policy: &str, report_every: &str) -> Value {
    let run = ["run", "--trace", "two.csv", "--cluster", "1x8:v100", "--save-s", "20", "--load-s", "20"];
    let rest = ["--policy", policy, "--report-every", report_every, "--output", "json"];
    let (json, _) = ends_with(place, 0, &[&run[..], &rest].concat(), b"");
    serde_json::from_str(&json).unwrap()
}

#[test]
fn decisions_on_fitted_losses_are_replayed_to_the_last_digit() {
    let place = scratch(&[("two.csv", TWO)]);
    let cheap =
        ["run", "--trace", "two.csv", "--cluster", "1x8:v100", "--policy", "slaq", "--report-every", "3s"];
    ends_with(place.path(), 0, &cheap, b"");
    ends_with(place.path(), 0, &["replay", "trainyard-out"], b"");
}

#[test]
fn how_often_jobs_report_changes_no_account_of_what_they_lost() {
    let place = scratch(&[("two.csv", TWO)]);
    let lost = |every| run_two(place.path(), "fair", every)["gpu_seconds_lost"].as_f64().unwrap();
    assert_eq!([lost("5s"), lost("100s"), lost("3000s")], [240.0; 3], "three moves of 20 s on 4 GPUs");
    let jct = |policy| run_two(place.path(), policy, "5s")["avg_jct_s"].as_f64().unwrap();
    assert!(jct("slaq") < 1.3 * jct("fair"), "what costs 20 s is still done where it pays");
}

/// All reported losses in a record, in their order.
fn collect(value: &Value, losses: &mut Vec<(f64, f64)>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Array(points)) = fields.get("losses") {
                let number = |point: &Value, key: &str| point[key].as_f64().unwrap();
                losses.extend(points.iter().map(|point| (number(point, "iteration"), number(point, "loss"))));
            }
            fields.values().for_each(|value| collect(value, losses));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, losses)),
        _ => {}
    }
}

#[test]
fn what_happens_to_losses_is_in_the_table_the_sentence_and_the_bounds() {
    let place = scratch(&[("two.csv", TWO)]);
    let head = ["compare", "--trace", "two.csv", "--cluster", "1x8:v100", "--policies", "fifo,fair,slaq"];
    let bound = ["--report-every", "5s", "--require", "to_90<1s", "--require", "mean_loss<=1"];
    let (text, told) = ends_with(place.path(), 5, &[&head[..], &bound].concat(), b"");
    let header = text.lines().next().unwrap();
    assert!(header.contains("to 90 %") && header.contains("mean loss"), "{text}");
    assert!(text.contains("brings a job to 90 % of its loss reduction"), "{text}");
    assert!(text.contains("fifo leaves every elastic job at its smallest size"), "{text}");
    assert!(told.contains("missed: slaq: avg_to_90_s is") && !told.contains("avg_loss is"), "{told}");
    assert!(!told.contains("without --report-every"), "{told}");
    // Without reports nobody knows of losses, which is said.
    let (text, told) = ends_with(place.path(), 0, &head, b"");
    assert!(told.contains("without --report-every they report none"), "{told}");
    assert!(!text.contains("to 90 %") && !text.contains("loss reduction"), "{text}");
}

#[test]
fn policies_that_are_called_rigid_are_those_that_leave_jobs_small() {
    let one: String = TWO.lines().take(2).map(|line| format!("{line}\n")).collect();
    let place = scratch(&[("one.csv", &one)]);
    let policies =
        ["fifo", "fifo-skip", "yarn-cs", "easy", "fair", "drf", "slaq", "slaq-tail", "srtf", "sjf"];
    let policies = [&policies[..], &["tetris", "tiresias"]].concat();
    let list = policies.join(",");
    let compare = ["compare", "--trace", "one.csv", "--cluster", "1x8:v100", "--report-every", "5s"];
    let rest = ["--policies", &list, "--out", "c"];
    let (text, _) = ends_with(place.path(), 0, &[&compare[..], &rest].concat(), b"");
    let said = text.split(" leave every elastic job").next().unwrap().rsplit(". ").next().unwrap();
    let said: Vec<&str> = said.split([',', ' ']).filter(|word| policies.contains(word)).collect();
    let is_small = |policy: &&&str| {
        let jobs =
            std::fs::read_to_string(place.path().join("c/runs").join(policy).join("jobs.csv")).unwrap();
        let mut lines = jobs.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
        let number =
            |name| row[head.iter().position(|column| *column == name).unwrap()].parse::<f64>().unwrap();
        number("gpu_s") < 1.01 * number("held_s")
    };
    let small: Vec<&str> = policies.iter().filter(is_small).copied().collect();
    assert_eq!(said, small, "{text}");
}

#[test]
fn a_mended_log_of_losses_counts_under_strict() {
    let curves = "curve,iteration,loss\nreal,0,9\nreal,10,nan\nreal,20,3\n";
    let jobs = "job_id,submit_s,duration_s,gpus,iterations,loss\nj,0,200,1,20,real\n";
    let place = scratch(&[("curves.csv", curves), ("jobs.csv", jobs)]);
    let run =
        ["run", "--trace", "jobs.csv", "--curves", "curves.csv", "--cluster", "1x4:v100", "--policy", "fifo"];
    let (_, told) = ends_with(place.path(), 3, &[&run[..], &["--strict"]].concat(), b"");
    assert!(told.contains("1 row left out: curves.csv: ") && told.contains("curves.csv:3"), "{told}");
    ends_with(place.path(), 0, &run, b"");
    let page = std::fs::read_to_string(place.path().join("trainyard-out/report.html")).unwrap();
    assert!(page.contains("curves.csv: "), "the import report of the page has it");
}

#[test]
fn why_tells_of_a_loss_that_diverges_and_of_cpus() {
    let mut curves = "curve,iteration,loss\n".to_owned();
    for k in 0..=200 {
        let loss = if k <= 120 { falling(f64::from(k)) } else { 1.01 + 0.1 * f64::from(k - 120) };
        let _ = writeln!(curves, "real,{k},{loss}");
    }
    let head = "job_id,submit_s,duration_s,gpus,cpus,workers,iterations,loss\nj,0,200,0,4,2,200,real\n";
    let two = format!("{head}late,1,200,0,4,2,200,real\n");
    let place = scratch(&[("curves.csv", &curves), ("one.csv", head), ("two.csv", &two)]);
    let run = |jobs, policy| {
        let run =
            ["run", "--trace", jobs, "--curves", "curves.csv", "--cluster", "1x8:cpu", "--policy", policy];
        ends_with(place.path(), 0, &[&run[..], &["--report-every", "10s"]].concat(), b"");
    };
    let why = |job, at| ends_with(place.path(), 0, &["why", "trainyard-out", job, "--at", at], b"").0;
    run("one.csv", "slaq");
    let text = why("j", "180s");
    assert!(text.contains("on 8 CPUs of "), "{text}");
    assert!(text.contains("its loss  diverging since iteration 12"), "{text}");
    assert!(text.contains("keeps its fewest workers"), "{text}");
    assert!(why("j", "90s").contains("its loss  it gets better"), "{}", why("j", "90s"));
    run("two.csv", "fifo");
    assert!(!why("j", "180s").contains("fewest workers"), "fifo does not look at losses");
    let text = why("late", "90s");
    assert!(text.contains("job late of default, 8 CPUs: waits"), "{text}");
    assert!(text.contains("needs 2 workers with 8 CPUs; 0 CPUs are free"), "{text}");
    assert!(text.contains("1 jobs on 8 CPUs: j (default, 8 CPUs,") && !text.contains("GPUs"), "{text}");
}
