//! The numbers of a summary by name, with units and short names, and bounds on them such as `p95_wait<1h`. The one
//! place that knows which number is which; what they mean is in `docs/metrics.md`.

use std::fmt;
use std::str::FromStr;

use trainyard_sched::metrics::Summary;
use trainyard_sim::trace::nearest;

use super::ArgumentError;
use super::words::{span, span_word};

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds, shown as a length of time.
    Seconds,
    /// GPU-seconds, shown as GPU-hours.
    GpuSeconds,
    /// A part of a whole, shown in per cent.
    Part,
    /// A ratio.
    Ratio,
    /// A number of things.
    Count,
    /// Bytes, shown as GB (1e9 bytes).
    Bytes,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// Less.
    Less,
    /// More.
    More,
    /// It depends.
    Neither,
}

/// A number of the summary.
pub(crate) struct Metric {
    /// Its key in `summary.json`.
    pub(crate) key: &'static str,
    /// Other names that are understood.
    aliases: &'static [&'static str],
    /// What it is called in tables.
    pub(crate) title: &'static str,
    /// What it counts.
    pub(crate) unit: Unit,
    /// Which way is better.
    pub(crate) better: Better,
    /// Whether it is measured on this machine, and so differs from run to run.
    pub(crate) measured: bool,
    /// The number, if there is one.
    pub(crate) of: fn(&Summary) -> Option<f64>,
}

impl Metric {
    const fn new(
        key: &'static str,
        aliases: &'static [&'static str],
        title: &'static str,
        unit: Unit,
        better: Better,
        of: fn(&Summary) -> Option<f64>,
    ) -> Self {
        Self { key, aliases, title, unit, better, measured: false, of }
    }

    const fn measured(self) -> Self {
        Self { measured: true, ..self }
    }
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

use Better::{Less, More, Neither};
use Unit::{Bytes, Count, GpuSeconds, Part, Ratio, Seconds};

/// All numbers of a summary, in the order of their keys.
pub(crate) const METRICS: [Metric; 35] = [
    Metric::new("accuracy_ratio", &["accuracies"], "accuracy reached", Part, More, |s| {
        s.objectives?.accuracy_ratio
    }),
    Metric::new("avg_accuracy", &["mean_accuracy", "accuracy"], "mean accuracy", Part, More, |s| {
        s.objectives?.avg_accuracy
    }),
    Metric::new("avg_ftf", &["mean_ftf", "ftf", "fairness"], "fairness", Ratio, Less, |s| s.avg_ftf),
    Metric::new(
        "avg_jct_completed_s",
        &["avg_jct_completed", "mean_jct_completed"],
        "JCT completed",
        Seconds,
        Less,
        |s| s.avg_jct_completed_s,
    ),
    Metric::new("avg_jct_s", &["avg_jct", "mean_jct", "mean_jct_s"], "JCT mean", Seconds, Less, |s| {
        s.avg_jct_s
    }),
    Metric::new("avg_loss", &["mean_loss"], "mean loss", Part, Less, |s| s.quality?.avg_loss),
    Metric::new("avg_slowdown", &["mean_slowdown", "slowdown"], "slowdown", Ratio, Less, |s| s.avg_slowdown),
    Metric::new("avg_to_90_s", &["avg_to_90", "to_90"], "to 90 %", Seconds, Less, |s| s.quality?.avg_to_90_s),
    Metric::new("avg_to_95_s", &["avg_to_95", "to_95"], "to 95 %", Seconds, Less, |s| s.quality?.avg_to_95_s),
    Metric::new("avg_to_99_s", &["avg_to_99", "to_99"], "to 99 %", Seconds, Less, |s| s.quality?.avg_to_99_s),
    Metric::new("avg_wait_s", &["avg_wait", "mean_wait", "mean_wait_s"], "wait mean", Seconds, Less, |s| {
        s.avg_wait_s
    }),
    Metric::new("censored", &["unfinished"], "not ended", Count, Less, |s| Some(s.censored as f64)),
    Metric::new("completed", &[], "completed", Count, More, |s| Some(s.completed as f64)),
    Metric::new("deadline_ratio", &["deadlines"], "in time", Part, More, |s| s.objectives?.deadline_ratio),
    Metric::new("decide_us_p50", &[], "decision us p50", Ratio, Less, |s| s.decide_us_p50).measured(),
    Metric::new("decide_us_p99", &[], "decision us p99", Ratio, Less, |s| s.decide_us_p99).measured(),
    Metric::new("decisions", &[], "decisions", Count, Neither, |s| Some(s.decisions as f64)),
    Metric::new("failed", &[], "failed", Count, Neither, |s| Some(s.failed as f64)),
    Metric::new("gpu_seconds_lost", &["lost_gpu_s", "lost"], "lost GPU h", GpuSeconds, Less, |s| {
        Some(s.gpu_seconds_lost)
    }),
    Metric::new("gpu_utilization", &["utilization", "gpu_use"], "GPU use", Part, More, |s| {
        Some(s.gpu_utilization)
    }),
    Metric::new("impossible", &[], "impossible", Count, Less, |s| Some(s.impossible as f64)),
    Metric::new("jobs", &[], "jobs", Count, Neither, |s| Some(s.jobs as f64)),
    Metric::new("killed", &[], "killed", Count, Neither, |s| Some(s.killed as f64)),
    Metric::new("makespan_s", &["makespan"], "makespan", Seconds, Less, |s| Some(s.makespan_s)),
    Metric::new("migrations", &[], "migrations", Count, Less, |s| Some(s.migrations as f64)),
    Metric::new("overloads", &[], "overloads", Count, Less, |s| Some(s.objectives?.overloads as f64)),
    Metric::new("p50_jct_s", &["p50_jct", "median_jct"], "JCT p50", Seconds, Less, |s| s.p50_jct_s),
    Metric::new("p90_jct_s", &["p90_jct"], "JCT p90", Seconds, Less, |s| s.p90_jct_s),
    Metric::new("p95_wait_s", &["p95_wait"], "wait p95", Seconds, Less, |s| s.p95_wait_s),
    Metric::new("p99_jct_s", &["p99_jct"], "JCT p99", Seconds, Less, |s| s.p99_jct_s),
    Metric::new("preemptions", &["preempted"], "preempted", Count, Less, |s| Some(s.preemptions as f64)),
    Metric::new("task_moves", &[], "task moves", Count, Less, |s| Some(s.objectives?.task_moves as f64)),
    Metric::new("traffic_bytes", &["traffic"], "traffic GB", Bytes, Less, |s| {
        Some(s.objectives?.traffic_bytes)
    }),
    Metric::new("urgent_deadline_ratio", &["urgent_deadlines"], "urgent in time", Part, More, |s| {
        s.objectives?.urgent_deadline_ratio
    }),
    Metric::new("wall_s", &[], "wall s", Ratio, Less, |s| s.wall_s).measured(),
];

/// The number of this name.
pub(crate) fn find_metric(name: &str) -> Result<&'static Metric, ArgumentError> {
    let is_it = |metric: &&Metric| metric.key == name || metric.aliases.contains(&name);
    METRICS.iter().find(is_it).ok_or_else(|| {
        let names = METRICS.iter().flat_map(|metric| std::iter::once(&metric.key).chain(metric.aliases));
        let known = METRICS.iter().map(|metric| metric.key).collect::<Vec<_>>().join(", ");
        let hint = nearest(name, names.copied());
        let hint = if hint.starts_with("did") { format!("{hint} It") } else { "it".to_owned() };
        ArgumentError::NoSuchKey { key: name.to_owned(), known: format!("{hint} has {known}") }
    })
}

/// The number of this name, which must not differ from run to run.
pub(crate) fn find_reproducible(name: &str) -> Result<&'static Metric, ArgumentError> {
    let metric = find_metric(name)?;
    if metric.measured {
        return Err(ArgumentError::Measured { key: name.to_owned() });
    }
    Ok(metric)
}

/// How a number is compared with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// A bound on a number of the summary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    /// The number.
    pub(crate) metric: &'static Metric,
    sign: Sign,
    bound: f64,
}

impl FromStr for Requirement {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let wrong = || ArgumentError::Requirement { value: value.to_owned() };
        let signs = [("<=", Sign::AtMost), (">=", Sign::AtLeast), ("<", Sign::Below), (">", Sign::Above)];
        let split = |(text, sign): (&str, Sign)| value.split_once(text).map(|parts| (parts, sign));
        let ((key, bound), sign) = signs.into_iter().find_map(split).ok_or_else(wrong)?;
        let metric = find_metric(key.trim())?;
        let bound = bound.trim();
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let bound = match (metric.unit, number(bound), bound.strip_suffix('%')) {
            (_, Some(number), _) => number,
            (Unit::Part, None, Some(percent)) => number(percent).ok_or_else(wrong)? / 100.0,
            (Unit::Seconds, None, None) => span(bound).map_err(|_| wrong())?.as_secs_f64(),
            _ => return Err(wrong()),
        };
        Ok(Self { metric, sign, bound })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.metric.key, self.sign())?;
        match self.metric.unit {
            Unit::Seconds => {
                let length = trainyard_sched::model::Span::from_secs_f64(self.bound);
                f.write_str(&span_word(length))
            }
            _ => write!(f, "{}", self.bound),
        }
    }
}

impl serde::Serialize for Requirement {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Requirement {
    /// Whether a number keeps the bound. One that is not there keeps none.
    pub(crate) fn holds(&self, found: Option<f64>) -> bool {
        found.is_some_and(|found| match self.sign {
            Sign::Below => found < self.bound,
            Sign::AtMost => found <= self.bound,
            Sign::Above => found > self.bound,
            Sign::AtLeast => found >= self.bound,
        })
    }

    /// What is missed, in words, if it is missed. A number that is not there misses every bound.
    pub(crate) fn missed_by(&self, summary: &Summary) -> Option<String> {
        let found = (self.metric.of)(summary);
        let (key, sign, bound, policy) = (self.metric.key, self.sign(), self.bound, &summary.policy);
        let words = found.map_or_else(|| "absent".to_owned(), |x| x.to_string());
        (!self.holds(found)).then(|| format!("{policy}: {key} is {words}, required is {sign} {bound}"))
    }

    /// The bound with the title of its number in place of the key, and in the unit of the title.
    pub(crate) fn titled(&self) -> String {
        let bound = match self.metric.unit {
            Unit::Seconds => span_word(trainyard_sched::model::Span::from_secs_f64(self.bound)),
            Unit::GpuSeconds => (self.bound / 3600.0).to_string(),
            Unit::Bytes => (self.bound / 1e9).to_string(),
            Unit::Part | Unit::Ratio | Unit::Count => self.bound.to_string(),
        };
        format!("{} {} {bound}", self.metric.title, self.sign())
    }

    const fn sign(&self) -> &'static str {
        match self.sign {
            Sign::Below => "<",
            Sign::AtMost => "<=",
            Sign::Above => ">",
            Sign::AtLeast => ">=",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_number_of_a_summary_and_reads_the_right_one() {
        let serde_json::Value::Object(keys) = serde_json::json!(Summary::default()) else { panic!() };
        let is_number = |value: &serde_json::Value| value.is_number() || value.is_null();
        let numbers = keys.iter().filter(|(key, value)| is_number(value) && *key != "quality");
        let of_quality = ["avg_loss", "avg_to_90_s", "avg_to_95_s", "avg_to_99_s"];
        let of_objectives = serde_json::json!(trainyard_sched::metrics::ObjectivesSummary::default());
        let serde_json::Value::Object(of_objectives) = of_objectives else { panic!() };
        let all = numbers.map(|(key, _)| key.as_str()).chain(of_quality);
        let mut numbers: Vec<&str> = all.chain(of_objectives.keys().map(String::as_str)).collect();
        numbers.sort_unstable();
        let known: Vec<&str> = METRICS.iter().map(|metric| metric.key).collect();
        assert_eq!(numbers, known);
        for (i, metric) in METRICS.iter().enumerate() {
            let mut changed = keys.clone();
            if of_quality.contains(&metric.key) {
                let quality = serde_json::json!({"jobs": 1, metric.key: i + 7});
                changed.insert("quality".to_owned(), quality);
            } else if of_objectives.contains_key(metric.key) {
                let mut objectives = of_objectives.clone();
                objectives.insert(metric.key.to_owned(), (i + 7).into());
                changed.insert("objectives".to_owned(), objectives.into());
            } else {
                changed.insert(metric.key.to_owned(), (i + 7).into());
            }
            let summary: Summary = serde_json::from_value(changed.into()).unwrap();
            assert_eq!((metric.of)(&summary), Some((i + 7) as f64), "{}", metric.key);
        }
    }

    #[test]
    fn names_are_unique_and_mistakes_get_a_suggestion() {
        let names = METRICS.iter().flat_map(|metric| std::iter::once(&metric.key).chain(metric.aliases));
        for name in names {
            let found = METRICS.iter().filter(|m| m.key == *name || m.aliases.contains(name)).count();
            assert_eq!(found, 1, "{name}");
        }
        assert_eq!(find_metric("p95_wait").unwrap().key, "p95_wait_s");
        let message = find_metric("p95_wiat").unwrap_err().to_string();
        assert!(message.contains("did you mean `p95_wait`?"), "{message}");
        assert!(find_metric("jct").unwrap_err().to_string().contains("avg_jct_s"));
        assert!(find_reproducible("wall_s").is_err() && find_reproducible("wait").is_err());
    }

    #[test]
    fn requirements_bound_a_number_of_the_summary() {
        let most: Requirement = "makespan_s <= 10".parse().unwrap();
        let summary = Summary { makespan_s: 11.0, ..Summary::default() };
        assert!(most.missed_by(&summary).unwrap().contains("11"));
        assert_eq!(most.missed_by(&Summary::default()), None);
        let absent: Requirement = "avg_jct_s<=10".parse().unwrap();
        assert!(absent.missed_by(&summary).is_some());
        for bad in
            ["makespn<=10", "makespan_s=10", "makespan_s<=", "makespan_s<=NaN", "gpu_use<5h", "jobs>1h"]
        {
            assert!(bad.parse::<Requirement>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bounds_are_told_with_titles_and_in_their_units() {
        for (given, told) in [
            ("p95_wait<1h", "wait p95 < 1h"),
            ("avg_jct_completed_s<=2d", "JCT completed <= 2d"),
            ("lost<3600", "lost GPU h < 1"),
            ("gpu_seconds_lost>=1800", "lost GPU h >= 0.5"),
            ("impossible<=0", "impossible <= 0"),
            ("gpu_use>80%", "GPU use > 0.8"),
            ("traffic<=5e9", "traffic GB <= 5"),
            ("deadlines>=75%", "in time >= 0.75"),
        ] {
            assert_eq!(given.parse::<Requirement>().unwrap().titled(), told);
        }
    }

    #[test]
    fn bounds_have_units_and_say_themselves_again() {
        let holds = |bound: &str, found| bound.parse::<Requirement>().unwrap().holds(Some(found));
        assert!(holds("p95_wait<1h", 3599.0) && !holds("p95_wait<1h", 3600.0));
        assert!(holds("p95_wait<=1h", 3600.0) && !holds("p95_wait > 1h", 3600.0));
        assert!(holds("gpu_use>=80%", 0.8) && !holds("utilization>=80%", 0.79));
        for (given, said) in [("p95_wait < 1h", "p95_wait_s<1h"), ("gpu_use>=80%", "gpu_utilization>=0.8")] {
            assert_eq!(given.parse::<Requirement>().unwrap().to_string(), said);
        }
    }
}
