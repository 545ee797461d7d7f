//! From the text of a sweep to its values: every key is known, every value of the right kind, and what is wrong is told
//! with its line. What a run would refuse is found later, when the settings are put together.

use std::collections::BTreeMap;

use clap::ArgAction;
use toml::de::{DeTable, DeValue};
use trainyard_sim::trace::nearest;

use super::{Factor, Setting, SweepFile, SweepFileError, dashed};
use crate::config::Metric;
use crate::config::metric::find_reproducible;

/// What is compared, if the file does not say.
const USUAL_METRICS: [&str; 4] = ["avg_jct_s", "avg_wait_s", "p95_wait_s", "gpu_utilization"];
/// More runs than this are surely a mistake.
const MOST_RUNS: usize = 1_000_000;
/// Keys of the file itself.
const KEYS: [&str; 7] = ["title", "seeds", "resample", "metrics", "baseline", "fixed", "factors"];
/// Arguments of a run that a sweep has a place of its own for.
const ELSEWHERE: [(&str, &str); 2] =
    [("seed", "write `seeds` at the top"), ("strict", "give --strict to the command")];

/// Reads one file.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) arguments: clap::Command,
}

type Spanned<'a> = toml::Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }

    fn wrong<T>(&self, at: usize, what: String) -> Result<T, SweepFileError> {
        Err(SweepFileError::Wrong { file: self.file.to_owned(), line: self.line(at), what })
    }

    /// The whole sweep.
    pub(super) fn sweep(&self, table: &DeTable<'_>) -> Result<SweepFile, SweepFileError> {
        let mut sweep = SweepFile {
            title: self.file.trim_end_matches(".toml").to_owned(),
            seeds: (0..10).collect(),
            resample: true,
            metrics: USUAL_METRICS.iter().filter_map(|name| find_reproducible(name).ok()).collect(),
            fixed: Vec::new(),
            factors: Vec::new(),
            baseline: BTreeMap::new(),
            text: String::new(),
            file: String::new(),
        };
        let mut baseline = None;
        for (key, value) in table {
            match (&**key.get_ref(), value.get_ref()) {
                ("title", DeValue::String(title)) => sweep.title = title.to_string(),
                ("seeds", _) => sweep.seeds = self.seeds(value)?,
                ("resample", DeValue::Boolean(resample)) => sweep.resample = *resample,
                ("metrics", DeValue::Array(names)) => {
                    let metric = |name: &Spanned<'_>| self.metric(name);
                    sweep.metrics = names.iter().map(metric).collect::<Result<_, _>>()?;
                }
                ("fixed", DeValue::Table(fixed)) => sweep.fixed = self.fixed(fixed)?,
                ("factors", DeValue::Table(factors)) => sweep.factors = self.factors(factors)?,
                ("baseline", DeValue::Table(levels)) => baseline = Some((key.span().start, levels)),
                (known, _) if KEYS.contains(&known) => {
                    return self.wrong(key.span().start, format!("`{known}` has a value of the wrong kind"));
                }
                (unknown, _) => {
                    let hint = nearest(unknown, KEYS.into_iter());
                    return self.wrong(key.span().start, format!("unknown key `{unknown}`; {hint}"));
                }
            }
        }
        self.check(&sweep)?;
        sweep.baseline = match baseline {
            // The first level of the first factor is as good as any.
            None => [(0, 0)].into_iter().collect(),
            Some((_, levels)) => self.baseline(levels, &sweep.factors)?,
        };
        Ok(sweep)
    }

    fn check(&self, sweep: &SweepFile) -> Result<(), SweepFileError> {
        if sweep.factors.is_empty() {
            return self.wrong(
                0,
                "there are no [factors]; name at least one, such as policy = [\"fifo\", \"srtf\"]".to_owned(),
            );
        }
        let has = |name: &str| {
            sweep.fixed.iter().any(|setting| setting.name == name)
                || sweep.factors.iter().any(|f| f.name == name)
        };
        if !has("policy") {
            return self.wrong(0, "`policy` is neither fixed nor a factor; name one".to_owned());
        }
        if let Some(twice) =
            sweep.factors.iter().find(|f| sweep.fixed.iter().any(|s| s.name == dashed(&f.name)))
        {
            let what = format!("`{}` is both fixed and a factor; keep one", twice.name);
            return Err(SweepFileError::Wrong { file: self.file.to_owned(), line: twice.line, what });
        }
        let levels = sweep.factors.iter().map(|factor| factor.levels.len());
        let runs = levels.fold(sweep.seeds.len(), usize::saturating_mul);
        if runs > MOST_RUNS {
            return self.wrong(0, format!("these are {runs} runs; at most {MOST_RUNS} are possible"));
        }
        Ok(())
    }

    fn seeds(&self, value: &Spanned<'_>) -> Result<Vec<u64>, SweepFileError> {
        let at = value.span().start;
        let number = |value: &DeValue<'_>| match value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let seeds = match value.get_ref() {
            DeValue::Array(all) => all.iter().map(|value| number(value.get_ref())).collect(),
            value => {
                number(value).filter(|count| *count <= MOST_RUNS as u64).map(|count| (0..count).collect())
            }
        };
        let Some(seeds) = seeds.filter(|seeds: &Vec<u64>| !seeds.is_empty()) else {
            return self.wrong(
                at,
                "`seeds` is a number from 1 upwards or a list of seeds, such as 10 or [3, 7]".to_owned(),
            );
        };
        let twice = seeds.iter().enumerate().find(|(i, seed)| seeds[..*i].contains(seed));
        match twice {
            Some((_, seed)) => self.wrong(at, format!("seed {seed} is there twice")),
            None => Ok(seeds),
        }
    }

    fn metric(&self, name: &Spanned<'_>) -> Result<&'static Metric, SweepFileError> {
        let DeValue::String(text) = name.get_ref() else {
            return self.wrong(name.span().start, "a metric is a name in quotes".to_owned());
        };
        find_reproducible(text).or_else(|error| self.wrong(name.span().start, error.to_string()))
    }

    /// The name of an argument, checked.
    fn argument(&self, key: &str, at: usize) -> Result<String, SweepFileError> {
        let name = dashed(key);
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(of, _)| *of == name) {
            return self.wrong(at, format!("`{key}` is no setting of a sweep; {instead}"));
        }
        let known = self.arguments.get_arguments().filter_map(clap::Arg::get_long);
        let known = known.filter(|known| ELSEWHERE.iter().all(|(of, _)| of != known)).chain(["policy"]);
        let known: Vec<&str> = known.collect();
        if known.contains(&name.as_str()) {
            return Ok(name);
        }
        self.wrong(at, format!("unknown setting `{key}`; {}", nearest(&name, known.into_iter())))
    }

    /// One value as the command line writes it. `None` is what is not there: `false` of an argument without a value.
    fn value(&self, name: &str, value: &Spanned<'_>) -> Result<Option<String>, SweepFileError> {
        let argument = self.arguments.get_arguments().find(|argument| argument.get_long() == Some(name));
        let is_flag = argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::SetTrue));
        let text = match value.get_ref() {
            DeValue::Boolean(given) if is_flag => return Ok(given.then(|| "true".to_owned())),
            _ if is_flag => None,
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        };
        let kind = if is_flag { "true or false" } else { "text or a number" };
        text.map_or_else(
            || self.wrong(value.span().start, format!("`{name}` takes {kind}")),
            |text| Ok(Some(text)),
        )
    }

    fn fixed(&self, table: &DeTable<'_>) -> Result<Vec<Setting>, SweepFileError> {
        let mut all = Vec::new();
        for (key, value) in table {
            let name = self.argument(key.get_ref(), key.span().start)?;
            let values = match value.get_ref() {
                DeValue::Array(several) => several.iter().collect(),
                _ => vec![value],
            };
            for value in values {
                let value = self.value(&name, value)?;
                all.extend(value.map(|value| Setting { name: name.clone(), value }));
            }
        }
        Ok(all)
    }

    fn factors(&self, table: &DeTable<'_>) -> Result<Vec<Factor>, SweepFileError> {
        let mut all = Vec::new();
        for (key, value) in table {
            let at = key.span().start;
            let name = self.argument(key.get_ref(), at)?;
            let DeValue::Array(levels) = value.get_ref() else {
                return self
                    .wrong(at, format!("factor `{name}` is a list of levels, such as [\"fifo\", \"srtf\"]"));
            };
            let level = |value: &Spanned<'_>| {
                let value = self.value(&name, value)?.unwrap_or_else(|| "false".to_owned());
                Ok(Setting { name: name.clone(), value })
            };
            let levels: Vec<Setting> = levels.iter().map(level).collect::<Result<_, SweepFileError>>()?;
            if levels.is_empty() {
                return self.wrong(at, format!("factor `{name}` has no levels"));
            }
            let twice = levels.iter().enumerate().find(|(i, level)| levels[..*i].contains(level));
            if let Some((_, level)) = twice {
                return self.wrong(at, format!("factor `{name}` has the level {} twice", level.value));
            }
            all.push((at, Factor { name, line: self.line(at), levels }));
        }
        // Factors stand in the order of the file.
        all.sort_by_key(|(at, _)| *at);
        Ok(all.into_iter().map(|(_, factor)| factor).collect())
    }

    fn baseline(
        &self,
        table: &DeTable<'_>,
        factors: &[Factor],
    ) -> Result<BTreeMap<usize, usize>, SweepFileError> {
        let mut all = BTreeMap::new();
        for (key, value) in table {
            let at = key.span().start;
            let name = self.argument(key.get_ref(), at)?;
            let Some(factor) = factors.iter().position(|factor| factor.name == name) else {
                let hint = nearest(&name, factors.iter().map(|factor| factor.name.as_str()));
                return self.wrong(at, format!("`baseline` names `{name}`, which is no factor; {hint}"));
            };
            let value = self.value(&name, value)?.unwrap_or_else(|| "false".to_owned());
            let levels = &factors[factor].levels;
            let Some(level) = levels.iter().position(|level| level.value == value) else {
                let hint = nearest(&value, levels.iter().map(|level| level.value.as_str()));
                return self.wrong(at, format!("factor `{name}` has no level {value}; {hint}"));
            };
            all.insert(factor, level);
        }
        if all.is_empty() {
            return self.wrong(0, "`baseline` names no factor".to_owned());
        }
        Ok(all)
    }
}
