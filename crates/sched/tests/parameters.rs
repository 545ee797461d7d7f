//! What may be given for the parameters of policies: each is described once, its bounds are held, nothing beyond them gets in,
//! and at its bounds a policy still decides, soon and soundly.

mod common;

use common::{Course, Dice, History};
use toml::{Table, Value};
use trainyard_sched::control::check;
use trainyard_sched::decide::{Abilities, Entry, Parameter, ParameterError, Values};
use trainyard_sched::policies;

fn given(parameter: &Parameter, value: &Value) -> Table {
    Table::from_iter([(parameter.name.to_owned(), value.clone())])
}

/// Why a value is refused; nothing if it is taken.
fn refusal(entry: &Entry, parameter: &Parameter, value: &Value) -> Option<ParameterError> {
    (entry.build)(&given(parameter, value)).err()
}

fn all() -> impl Iterator<Item = (&'static Entry, &'static Parameter)> {
    policies::ALL.iter().flat_map(|entry| entry.parameters.iter().map(move |parameter| (*entry, parameter)))
}

fn list(numbers: &[f64]) -> Value {
    Value::Array(numbers.iter().copied().map(Value::Float).collect())
}

/// Values that nobody should get in, and values that everybody may give.
fn wrong_and_right(values: Values) -> (Vec<Value>, Vec<Value>) {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300, -1e300];
    match values {
        Values::Number { least, most } => {
            let tiny = (least > 0.0).then_some(5e-324);
            let beside = [(least - 0.001).min(least * 0.999), most * 1.001];
            let wrong = odd.into_iter().chain(tiny).chain(beside).map(Value::Float);
            let wrong = wrong.chain([Value::Integer(i64::MAX), Value::Integer(-1)]);
            (wrong.collect(), [least, most].map(Value::Float).to_vec())
        }
        Values::Whole { least, most } => {
            let wrong = [i64::MIN, -1, least - 1, most + 1, i64::MAX].map(Value::Integer).into_iter();
            let wrong = wrong.chain([f64::NAN, 1e300, least as f64 + 0.5].map(Value::Float));
            (wrong.collect(), [least, most].map(Value::Integer).to_vec())
        }
        Values::Ascending { least, most, count } => {
            let mut wrong: Vec<Value> = odd.iter().map(|odd| list(&[least, *odd])).collect();
            wrong.extend([list(&[2.0, 1.0]), list(&[least * 0.999]), list(&vec![1.0; count + 1])]);
            wrong.push(Value::Array(vec![Value::from("1")]));
            let many: Vec<f64> = (1..=count).map(|i| i as f64).collect();
            (wrong, vec![list(&[least]), list(&[least, most]), list(&many)])
        }
        Values::Named { least, most } => {
            let one = |value: Value| Value::Table(Table::from_iter([("v100".to_owned(), value)]));
            let beyond = odd.into_iter().chain([least * 0.999, most * 1.001]).map(Value::Float);
            let mut wrong: Vec<Value> =
                beyond.chain([Value::from("1"), Value::Boolean(true)]).map(one).collect();
            wrong.extend([Value::Table(Table::new()), Value::Float(1.0), list(&[1.0])]);
            (wrong, vec![one(Value::Float(least)), one(Value::Float(most)), one(Value::Integer(1))])
        }
        Values::Choice(words) => {
            let right = words.iter().map(|word| Value::from(*word)).collect();
            (vec![Value::from(""), Value::from("nonsense"), Value::Integer(1), Value::Boolean(true)], right)
        }
        Values::Policy => {
            let others = policies::ALL.iter().map(|entry| entry.name).filter(|name| *name != "mlf-c");
            let wrong = ["", "nonsense", "mlf-c"].into_iter().map(Value::from).chain([Value::Integer(1)]);
            (wrong.collect(), others.map(Value::from).collect())
        }
        Values::Parameters => {
            let unknown = Value::Table(Table::from_iter([("nonsense".to_owned(), Value::Integer(1))]));
            (vec![unknown, Value::Integer(1), Value::from("placement")], vec![Value::Table(Table::new())])
        }
        Values::Weights => {
            let wrong = ["nonsense", "bm9uc2Vuc2U="].into_iter().map(Value::from).chain([Value::Integer(1)]);
            (wrong.collect(), vec![Value::from("")])
        }
        Values::Flag => {
            let right = [true, false].map(Value::Boolean).to_vec();
            (vec![Value::Integer(1), Value::from("true"), Value::Float(f64::NAN)], right)
        }
    }
}

#[test]
fn every_parameter_is_described_and_nothing_else_is() {
    for entry in policies::ALL {
        let defaults = (entry.defaults)();
        let mut described: Vec<&str> = entry.parameters.iter().map(|parameter| parameter.name).collect();
        described.sort_unstable();
        let taken: Vec<&str> = defaults.keys().map(String::as_str).collect();
        assert_eq!(described, taken, "{}", entry.name);
        for parameter in entry.parameters {
            let place = format!("{}, {}", entry.name, parameter.name);
            assert!(parameter.meaning.len() > 10 && !parameter.meaning.ends_with('.'), "{place}");
            assert!(!parameter.meaning.contains(['|', '\n']), "{place}: it stands in a table");
            let unit_said = parameter.unit.is_empty() || matches!(parameter.values, Values::Choice(_));
            let is_time = parameter.name.ends_with("_s");
            assert!(!(is_time && unit_said), "{place}: a time has a unit");
            let may_be_none = matches!(parameter.values, Values::Number { least, .. } if least < 0.001);
            assert!(!(is_time && may_be_none), "{place}: steps without length never end");
            assert_eq!(refusal(entry, parameter, &defaults[parameter.name]), None, "{place}: its default");
        }
        assert!((entry.build)(&defaults).is_ok(), "{}", entry.name);
    }
}

#[test]
fn what_is_out_of_bounds_is_refused_by_name_and_what_is_within_is_taken() {
    let mut numbers = 0;
    for (entry, parameter) in all() {
        let (wrong, right) = wrong_and_right(parameter.values);
        let is_number = !matches!(
            parameter.values,
            Values::Choice(_) | Values::Flag | Values::Policy | Values::Parameters
        );
        numbers += usize::from(is_number);
        for value in wrong {
            let refused = refusal(entry, parameter, &value);
            let refused = refused.unwrap_or_else(|| panic!("{}{{{} = {value}}}", entry.name, parameter.name));
            let told = refused.to_string();
            assert!(told.contains(entry.name), "{told}");
            let names_it = told.contains(parameter.name) || !is_number || told.contains("expected");
            assert!(names_it, "{told}");
        }
        for value in right {
            let refused = refusal(entry, parameter, &value);
            assert_eq!(refused, None, "{}{{{} = {value}}}", entry.name, parameter.name);
        }
    }
    assert!(numbers > 30, "there are policies with numbers: {numbers}");
}

#[test]
fn what_would_do_nothing_is_refused_with_what_to_try() {
    let told = |given: &str| {
        let table: Table = given.parse().expect("it is TOML");
        policies::build("gavel", &table).err().map(|error| error.to_string())
    };
    let of = |objective: &str, more: &str| told(&format!("objective = '{objective}'\n{more}"));
    for objective in ["throughput", "proportional", "strategy_proof", "shortest_job_first", "isolated"] {
        let told = of(objective, "packed = true").expect("nobody said how it packs");
        assert!(told.contains(objective) && told.contains("leave it out, or choose"), "{told}");
    }
    for objective in ["throughput", "cost", "shortest_job_first", "isolated"] {
        assert!(of(objective, "aware = false").is_some_and(|told| told.contains(objective)), "{objective}");
    }
    assert!(told("packed = true\naware = false").is_some_and(|told| told.contains("leave one of them out")));
    assert!(of("isolated", "by_place = true").is_some_and(|told| told.contains("by_place")));
    for (objective, more) in [
        ("cost", "packed = true\nprices = { v100 = 2 }"),
        ("fifo", "packed = true"),
        ("proportional", "aware = false"),
        ("isolated", ""),
        ("throughput", "by_place = true"),
    ] {
        assert_eq!(of(objective, more), None, "{objective} {more}");
    }
    let wrong = told("prices = { v100 = -1.0 }").expect("nobody is paid for using GPUs");
    assert!(wrong.contains("prices") && wrong.contains("give at least one of numbers by name"), "{wrong}");
}

#[test]
fn what_is_wrong_with_a_policy_inside_another_is_said_by_name() {
    let told = |given: &str| {
        let table: Table = given.parse().expect("it is TOML");
        policies::build("mlf-c", &table).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let name = told("inner = 'tiresas'");
    assert!(name.contains("`mlf-c`: inner: ") && name.contains("did you mean `tiresias`?"), "{name}");
    let key = told("inner = 'srtf'\ninner_parameters = { bye = 'time' }");
    assert!(
        key.contains("inner_parameters: policy `srtf` has no parameter `bye`, did you mean `by`?"),
        "{key}"
    );
    assert!(told("inner_parameters = { h = 1 }").contains("policy `fifo` has no parameter"));
    assert!(told("inner = 'mlf-c'").contains("name another policy"));
    assert!(told("iner = 'fifo'").contains("did you mean `inner`?"));
    assert_eq!(told("inner = 'srtf'\ninner_parameters = { by = 'gpu_time' }"), "");
}

#[test]
fn at_the_bounds_of_its_parameters_every_policy_decides_soundly() {
    for (entry, parameter) in all() {
        for value in wrong_and_right(parameter.values).1 {
            let make = || (entry.build)(&given(parameter, &value)).expect("it was taken above");
            let mut dice = Dice::new(5);
            let (cluster, tenants) = (common::cluster(&mut dice), common::tenants(&mut dice));
            let course = Course { seed: 5, steps: 12, mishaps: true, abilities: Abilities::ALL };
            let mut history = History::new(course, cluster.clone(), tenants.clone(), make());
            for _ in 0..course.steps {
                history.advance(&mut |dice, id, at| common::job_of_tasks(dice, id, at, &cluster, &tenants));
            }
            let seen = history.core.snapshot(history.at);
            let decision = make().decide(&seen);
            let faults = check(&seen, &decision, Abilities::ALL);
            assert!(faults.is_empty(), "{}{{{} = {value}}}: {faults:?}", entry.name, parameter.name);
        }
    }
}
