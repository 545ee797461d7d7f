//! One plain sentence that says what a comparison means.

use trainyard_sched::decide::Entry;
use trainyard_sched::metrics::Summary;
use trainyard_sched::model::Job;
use trainyard_sim::workload::Workload;

use super::words::{duration, list};
use crate::config::deciding;

/// What a comparison means, and what must be known of the jobs before it is believed.
pub(crate) fn in_short(all: &[Summary], workload: &Workload) -> String {
    let is_elastic = |job: &Job| job.shape.data_parallel().is_some_and(|shape| !shape.workers.is_fixed());
    let has_elastic = workload.jobs.iter().any(|(job, _)| is_elastic(job));
    let note = if has_elastic { rigid(all) } else { None };
    note.map_or_else(|| sentence(all), |note| format!("{} {note}", sentence(all)))
}

/// Which policies leave elastic jobs at their smallest size.
fn rigid(all: &[Summary]) -> Option<String> {
    let leaves = |s: &&Summary| entry(s).is_some_and(|entry| !entry.sizes);
    let names: Vec<&str> = all.iter().filter(leaves).map(|s| s.policy.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let (leave, rest) = if names.len() == 1 { ("leaves", "it is") } else { ("leave", "they are") };
    let others = if names.len() == all.len() {
        ""
    } else {
        &format!(", and much of what {rest} behind is workers that were never given")
    };
    Some(format!("{} {leave} every elastic job at its smallest size{others}.", list(&names)))
}

fn entry(summary: &Summary) -> Option<&'static Entry> {
    deciding(&summary.policy)
}

/// Who lowers losses soonest, where jobs reported any.
fn learning(all: &[Summary], baseline: &Summary) -> String {
    let to_90 = |s: &Summary| s.quality?.avg_to_90_s;
    let timed = all.iter().filter_map(|s| Some((s, to_90(s)?)));
    let Some((best, best_s)) = timed.min_by(|a, b| a.1.total_cmp(&b.1)) else { return String::new() };
    let lead = format!(" {} brings a job to 90 % of its loss reduction", best.policy);
    match to_90(baseline).filter(|_| baseline.policy != best.policy) {
        Some(base_s) if base_s >= NOTICEABLE * best_s => {
            format!("{lead} {} than {} on average.", sooner(base_s, best_s), baseline.policy)
        }
        Some(_) => format!(" No policy lowers losses noticeably sooner than {} here.", baseline.policy),
        None => format!("{lead} after {} on average.", duration(best_s)),
    }
}

fn sooner(base_s: f64, best_s: f64) -> String {
    let times = base_s / best_s.max(1e-9);
    if times < 1.95 {
        format!("{:.0} % sooner", (1.0 - best_s / base_s) * 100.0)
    } else {
        format!("{times:.1} times sooner")
    }
}

/// Times closer than this are called equal.
const NOTICEABLE: f64 = 1.02;

/// What the comparison means. The baseline is `fifo` if it is there, else the first policy.
pub(crate) fn sentence(all: &[Summary]) -> String {
    let Some(baseline) = all.iter().find(|s| s.policy == "fifo").or(all.first()) else {
        return "There is nothing to compare.".to_owned();
    };
    let warning = format!("{}{}", learning(all, baseline), warnings(all));
    if all.len() == 1 {
        return format!("{}{warning}", alone(baseline));
    }
    let timed = all.iter().filter_map(|s| s.avg_jct_s.map(|jct| (s, jct)));
    let Some((best, best_s)) = timed.min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return format!("No policy came to a mean completion time.{warning}");
    };
    let Some(base_s) = baseline.avg_jct_s.filter(|_| baseline.policy != best.policy) else {
        let other =
            if baseline.avg_jct_s.is_some() { "no other policy does better" } else { "the best mean" };
        return format!(
            "{} ends a job after {} on average; {other}.{warning}",
            best.policy,
            duration(best_s)
        );
    };
    let times = base_s / best_s.max(1e-9);
    if times < NOTICEABLE {
        let base = &baseline.policy;
        return format!("No policy ends jobs noticeably sooner than {base} here on average.{warning}");
    }
    let sooner = sooner(base_s, best_s);
    let lead = format!("{} ends a job {sooner} than {} on average", best.policy, baseline.policy);
    let rest = told_nothing(all, best, base_s, best_s);
    format!("{lead}{rest}.{warning}")
}

/// What must be known before the means are believed.
fn warnings(all: &[Summary]) -> String {
    let named = |holds: &dyn Fn(&Summary) -> bool| {
        let names: Vec<&str> = all.iter().filter(|s| holds(s)).map(|s| s.policy.as_str()).collect();
        (!names.is_empty()).then(|| list(&names))
    };
    let mut text = String::new();
    if let Some(names) = named(&|s| s.unstable) {
        text += &format!(" Under {names} the queue kept growing, so mean times would mean nothing there.");
    }
    if let Some(names) = named(&|s| s.censored > 0 && !s.unstable) {
        text += &format!(
            " Under {names} some jobs had not ended when the run did; they are missing from the means."
        );
    }
    let most = all.iter().max_by_key(|s| s.impossible).filter(|s| s.impossible > 0);
    if let Some(Summary { impossible, jobs, policy, .. }) = most {
        let everywhere = all.iter().all(|s| s.impossible == *impossible);
        let under = if everywhere { String::new() } else { format!(" under {policy}") };
        text += &format!(
            " Of {jobs} jobs {impossible} cannot run even on the idle cluster{under}; they are in no mean."
        );
    }
    text
}

/// What the best of the policies without knowledge of run times gets of the gain.
fn told_nothing(all: &[Summary], best: &Summary, base_s: f64, best_s: f64) -> String {
    let knows_nothing = |s: &Summary| entry(s).is_some_and(|entry| !entry.reads_declared);
    if knows_nothing(best) {
        return String::new();
    }
    let others = all.iter().filter(|s| knows_nothing(s)).filter_map(|s| Some((&s.policy, s.avg_jct_s?)));
    let other = others.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, jct_s)| *jct_s < base_s);
    let Some((policy, jct_s)) = other else { return String::new() };
    let part = (base_s - jct_s) / (base_s - best_s) * 100.0;
    if part < 1.0 {
        return format!("; {policy}, which is told nothing about run times, gets none of that gain");
    }
    format!("; {policy}, which is told nothing about run times, gets {part:.0} % of that gain")
}

fn alone(one: &Summary) -> String {
    let Summary { policy, completed, jobs, gpu_utilization, .. } = one;
    let used = gpu_utilization * 100.0;
    let took = one.avg_jct_s.map_or_else(String::new, |s| format!(" after {} on average", duration(s)));
    format!(
        "Under {policy}, {completed} of {jobs} jobs came to an end{took}; {used:.0} % of the GPU time was used."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(policy: &str, avg_jct_s: Option<f64>) -> Summary {
        Summary { policy: policy.to_owned(), avg_jct_s, unstable: avg_jct_s.is_none(), ..Summary::default() }
    }

    #[test]
    fn the_gain_over_fifo_is_told_with_its_part() {
        let all = [with("fifo", Some(230.0)), with("srtf", Some(100.0)), with("tiresias", Some(139.0))];
        let expected = "srtf ends a job 2.3 times sooner than fifo on average; tiresias, which is told nothing \
                        about run times, gets 70 % of that gain.";
        assert_eq!(sentence(&all), expected);
    }

    #[test]
    fn losses_and_rigid_policies_are_told_of() {
        let learnt = |policy, jct_s, to_90_s| {
            let quality = serde_json::from_value(serde_json::json!({"jobs": 9, "avg_to_90_s": to_90_s}));
            Summary { quality: quality.unwrap(), ..with(policy, Some(jct_s)) }
        };
        let all = [learnt("fifo", 200.0, 90.0), learnt("fair", 100.0, 30.0), learnt("slaq", 120.0, 20.0)];
        let text = sentence(&all);
        assert!(text.starts_with("fair ends a job 2.0 times sooner"), "{text}");
        let told = "slaq brings a job to 90 % of its loss reduction 4.5 times sooner than fifo on average.";
        assert!(text.ends_with(told), "{text}");
        assert!(sentence(&all[2..]).ends_with("after 20s on average."), "{}", sentence(&all[2..]));
        assert!(!sentence(&[with("fifo", Some(1.0)), with("sjf", Some(2.0))]).contains("loss"));
        let note = rigid(&all).unwrap();
        assert!(note.starts_with("fifo leaves every elastic job at its smallest size, and much"), "{note}");
        assert_eq!(rigid(&all[1..]), None);
    }

    #[test]
    fn small_and_missing_gains_are_not_exaggerated() {
        assert!(sentence(&[with("fifo", Some(100.0)), with("sjf", Some(99.0))]).starts_with("No policy"));
        assert!(sentence(&[with("fifo", Some(100.0)), with("sjf", Some(80.0))]).contains("20 % sooner"));
        assert!(sentence(&[with("fifo", Some(80.0)), with("sjf", Some(100.0))]).contains("no other"));
    }

    #[test]
    fn jobs_that_can_never_run_are_told_of() {
        let odd = |policy: &str, impossible| Summary { jobs: 9, impossible, ..with(policy, Some(100.0)) };
        let text = sentence(&[odd("fifo", 2), odd("srtf", 2)]);
        assert!(
            text.ends_with("Of 9 jobs 2 cannot run even on the idle cluster; they are in no mean."),
            "{text}"
        );
        let text = sentence(&[odd("fifo", 0), odd("yarn-cs", 3)]);
        assert!(text.contains("3 cannot run even on the idle cluster under yarn-cs"), "{text}");
        assert!(!sentence(&[odd("fifo", 0)]).contains("cannot run"));
    }

    #[test]
    fn an_unstable_baseline_is_named() {
        let text = sentence(&[with("fifo", None), with("srtf", Some(100.0))]);
        assert!(text.contains("Under fifo the queue kept growing"), "{text}");
        let cut_off = Summary { censored: 3, ..with("sjf", Some(50.0)) };
        assert!(
            sentence(&[with("fifo", Some(100.0)), cut_off]).contains("Under sjf some jobs had not ended")
        );
        assert_eq!(sentence(&[]), "There is nothing to compare.");
    }
}
