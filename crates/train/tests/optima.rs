//! What each program tends to, against what is known in closed form.

use trainyard_train::data::{Data, Rating, Ratings, Table, generator};
use trainyard_train::{Line, Stops, Tensors, Training, Values, algorithms};

const ALWAYS: Stops = Stops { iterations: u64::MAX, loss: None, change: None };

/// The lines of so many iterations, and the state after them.
fn train(name: &str, set: &str, data: Data, iterations: usize) -> (Vec<Line>, Tensors) {
    let entry = algorithms::named(name).unwrap();
    let given: Vec<&str> = set.split(',').filter(|pair| !pair.is_empty()).collect();
    let values = Values::new(name, entry.parameters, &given).unwrap();
    let mut training = Training::begin(entry, &values, data, 3, 1).unwrap();
    let lines = (0..iterations).map(|_| training.iterate(&ALWAYS).unwrap()).collect();
    (lines, training.checkpoint().state)
}

fn generated(name: &str, sizes: &[&str]) -> Data {
    let generator = generator(name).unwrap();
    generator.make(&Values::new(name, generator.parameters, sizes).unwrap(), 11).unwrap()
}

fn table(columns: usize, values: &[f64], targets: &[f64]) -> Data {
    Data::Table(Table { columns, values: values.to_vec(), targets: targets.to_vec() })
}

#[track_caller]
fn near(told: f64, wanted: f64, within: f64) {
    assert!((told - wanted).abs() <= within, "{told} against {wanted}");
}

#[test]
fn logistic_regression_finds_the_odds_of_each_group() {
    // A column of 0 and 1: three of four are right where it is 1, one of five where it is 0. Without a penalty the chances are
    // the shares, so the intercept is ln(1/4) and the slope ln 3 - ln(1/4) = ln 12.
    let values = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let targets = [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    for (method, iterations) in [("gradient", 600), ("lbfgs", 30)] {
        let set = format!("l2=0,method={method}");
        let (lines, state) = train("logistic", &set, table(1, &values, &targets), iterations);
        let weights = state.values("weights", &[2]).unwrap();
        near(weights[0], 12.0_f64.ln(), 1e-4);
        near(weights[1], 0.25_f64.ln(), 1e-4);
        near(lines.last().unwrap().accuracy.unwrap(), 7.0 / 9.0, 1e-12);
    }
}

#[test]
fn the_support_vector_machine_finds_the_widest_street() {
    // Rows at -1 and 1 with the classes of their sign, and others farther out that must not matter. By symmetry the intercept is
    // 0, and only the inner ones are within the street. Squared hinge: (1 - w)^2 (half of the rows) + l2/2 w^2 has its minimum
    // where w = (2/2) / (1 + l2).
    let values = [-1.0, 1.0, -9.0, 9.0];
    let targets = [0.0, 1.0, 0.0, 1.0];
    for method in ["gradient", "lbfgs"] {
        let (_, state) = train("svm", &format!("l2=0.1,method={method}"), table(1, &values, &targets), 300);
        let weights = state.values("weights", &[2]).unwrap();
        near(weights[0], 1.0 / 1.1, 1e-6);
        near(weights[1], 0.0, 1e-6);
    }
    // Hinge: (1 - w)/2 + l2/2 w^2 falls until w = 1, where the street is as wide as the gap; the loss there is l2/2.
    let (lines, state) = train("svm", "l2=0.1,method=pegasos", table(1, &values, &targets), 5000);
    near(state.values("weights", &[2]).unwrap()[0], 1.0, 0.01);
    near(lines.last().unwrap().loss, 0.05, 0.002);
}

#[test]
fn k_means_finds_the_clouds() {
    let data = generated("blobs", &["rows=3000", "features=4", "centres=5", "noise=0.1"]);
    let truth = data.table().unwrap().clone();
    let (lines, state) = train("kmeans", "clusters=5", data, 20);
    let centres = state.values("centres", &[5, 4]).unwrap();
    let mean = |class: f64, column: usize| {
        let rows = (0..truth.rows()).filter(|row| truth.targets[*row] == class);
        rows.map(|row| truth.row(row)[column]).sum::<f64>() / 600.0
    };
    let mut taken = [false; 5];
    for class in 0..5 {
        let matches = |centre: &[f64]| {
            (0..4).all(|column| (centre[column] - mean(f64::from(class), column)).abs() < 1e-9)
        };
        let found = centres.chunks_exact(4).position(matches).expect("each mean is a centre");
        assert!(!std::mem::replace(&mut taken[found], true), "each centre is one mean");
    }
    // Four columns of deviation 0.1, and a mean takes one part in 600 of it.
    near(lines.last().unwrap().loss, 0.04, 0.002);
    assert!(lines.windows(2).all(|pair| pair[1].loss <= pair[0].loss), "Lloyd's steps never make it worse");
}

#[test]
fn a_perceptron_learns_what_no_line_divides() {
    let values = [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0];
    let (lines, _) = train("mlp", "hidden=8,batch=0,step=0.5", table(2, &values, &[0.0, 1.0, 1.0, 0.0]), 400);
    let last = lines.last().unwrap();
    assert!(last.loss < 0.01 && last.accuracy == Some(1.0), "{last:?}");
    near(lines[0].loss, 2.0_f64.ln(), 0.3);
}

#[test]
fn a_perceptron_reaches_the_means_of_equal_rows_and_not_less() {
    // Three values of a column, each with two targets: the best that any function can say is their mean.
    let values = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0];
    let targets = [3.5, 4.0, 7.5, 3.0, 5.0, 7.0];
    let set = "task=regression,activation=relu,hidden=16,batch=0,step=0.005";
    let (lines, _) = train("mlp", set, table(1, &values, &targets), 6000);
    // Half of each difference remains at both rows: (1/4)^2, (1/2)^2 and (1/4)^2.
    let best = (0.0625 + 0.25 + 0.0625) / 3.0;
    let last = lines.last().unwrap().loss;
    assert!(last >= best - 1e-12, "nothing can tell equal rows apart: {last}");
    near(last, best, 1e-3);
}

#[test]
fn trees_divide_what_can_be_divided() {
    // Four steps of one column, and another that says nothing. With the whole of each tree and no penalty one tree is enough.
    let values: Vec<f64> = (0..80).flat_map(|i| [f64::from(i), f64::from(i * 7 % 11)]).collect();
    let targets: Vec<f64> = (0..80).map(|i| [3.0, -1.0, 8.0, 8.5][i / 20]).collect();
    let (lines, _) = train("trees", "rate=1,l2=0,depth=2,bins=256", table(2, &values, &targets), 1);
    assert!(lines[0].loss < 1e-20, "{lines:?}");
    let (lines, _) = train("trees", "rate=1,l2=0,depth=1,bins=256", table(2, &values, &targets), 1);
    // One division takes 8 and 8.5 from 3 and -1; what remains is 2^2 on one side and 0.25^2 on the other.
    near(lines[0].loss, (4.0 + 0.0625) / 2.0, 1e-9);
    // At a rate of 0.5 a leaf goes half of the way, so the loss is a quarter each time.
    let (lines, _) = train("trees", "rate=0.5,l2=0,depth=2,bins=256", table(2, &values, &targets), 6);
    for pair in lines.windows(2) {
        near(pair[1].loss / pair[0].loss, 0.25, 1e-9);
    }
}

#[test]
fn trees_of_the_log_loss_find_the_odds() {
    // As for logistic regression above: the chances are 3/4 and 1/5, and so is the entropy.
    let values = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let targets = [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    let (lines, _) = train("trees", "loss=logistic,l2=0,rate=0.5,depth=1", table(1, &values, &targets), 60);
    let entropy = |p: f64| -p * p.ln() - (1.0 - p) * (1.0 - p).ln();
    near(lines.last().unwrap().loss, (4.0 * entropy(0.75) + 5.0 * entropy(0.2)) / 9.0, 1e-9);
    near(lines.last().unwrap().accuracy.unwrap(), 7.0 / 9.0, 1e-12);
}

#[test]
fn a_matrix_of_low_rank_is_found_also_where_it_is_not_seen() {
    let factor = |i: usize, k: usize| ((i * 3 + k * 5 + 1) as f64 * 0.37).sin();
    let cell =
        |user: usize, item: usize| (0..2).map(|k| factor(user, k) * factor(item + 100, k)).sum::<f64>();
    let cells = (0..60).flat_map(|user| (0..40).map(move |item| (user, item)));
    let (seen, hidden): (Vec<_>, Vec<_>) = cells.partition(|(user, item)| (user * 7 + item * 13) % 3 != 0);
    let rating = |&(user, item): &(usize, usize)| Rating {
        user: user as u32,
        item: item as u32,
        value: cell(user, item),
    };
    let data = Data::Ratings(Ratings { users: 60, items: 40, entries: seen.iter().map(rating).collect() });
    let (lines, state) = train("factorisation", "rank=2,l2=1e-9", data, 100);
    assert!(lines.last().unwrap().loss < 1e-7, "{:?}", lines.last());
    let (users, items) = (state.values("users", &[60, 2]).unwrap(), state.values("items", &[40, 2]).unwrap());
    assert!(hidden.len() > 700);
    for (user, item) in hidden {
        near((0..2).map(|k| users[2 * user + k] * items[2 * item + k]).sum(), cell(user, item), 1e-3);
    }
}

#[test]
fn losses_that_must_not_rise_do_not() {
    for (name, set) in [
        ("logistic", ""),
        ("logistic", "method=lbfgs"),
        ("svm", ""),
        ("svm", "method=lbfgs"),
        ("kmeans", ""),
        ("trees", ""),
        ("factorisation", ""),
    ] {
        let entry = algorithms::named(name).unwrap();
        let sizes: &[&str] = if name == "factorisation" { &["users=200"] } else { &["rows=1000"] };
        let (lines, _) = train(name, set, generated(entry.generator, sizes), 40);
        for pair in lines.windows(2) {
            // Sums of the same at another point are rounded otherwise.
            assert!(pair[1].loss <= pair[0].loss * (1.0 + 1e-12), "{name} {set}: {pair:?}");
        }
        assert!(lines[39].loss < lines[0].loss, "{name} {set}: {lines:?}");
    }
}
