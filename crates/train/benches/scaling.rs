//! How long training stands still when servers are added: at work, by migration at a scaling clock, and by the way that every system has,
//! a checkpoint and a new start of all processes. It is the measurement of DL2 (Peng and others, TPDS 2021, section 6), on one machine.
//!
//! The processes are this program itself, told their part by the environment. Standing still is, at work, what the coordinator
//! reports; with a new start it is the time between the last line of the old job and the first of the new one, less the median of
//! an iteration. Data are generated and small, so a new start is as quick as it can be. Both jobs must end with the same loss.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use trainyard_train::data::generator;
use trainyard_train::{
    Coordinating, Files, Joining, Order, Report, Stops, Token, Training, Values, algorithms, coordinate, run,
    serve, work,
};

const PART: &str = "SCALING_PART";
const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: usize = 2;

/// A model, by the width of its two hidden layers, with rows and rows of a batch.
struct Model {
    hidden: usize,
    rows: usize,
    batch: usize,
    iterations: u64,
}

const MODELS: [Model; 3] = [
    Model { hidden: 64, rows: 2000, batch: 128, iterations: 60 },
    Model { hidden: 300, rows: 256, batch: 64, iterations: 30 },
    Model { hidden: 1000, rows: 64, batch: 32, iterations: 16 },
];

fn begin(model: &Model) -> Training {
    let entry = algorithms::named("mlp").unwrap();
    let generator = generator("blobs").unwrap();
    let rows = format!("rows={}", model.rows);
    let data = generator.make(&Values::new("blobs", generator.parameters, &[rows]).unwrap(), 1).unwrap();
    let set = [format!("hidden={},layers=2,step=0.001,batch={}", model.hidden, model.batch)];
    Training::begin(entry, &Values::new("mlp", entry.parameters, &set).unwrap(), data, 1, 1).unwrap()
}

fn token() -> Token {
    Token::new("the secret of this measurement").unwrap()
}

/// What one process does: `coordinator SERVERS`, `worker` or `server`, in a folder, for a model by its number.
fn part(part: &str) {
    let words: Vec<&str> = part.split(' ').collect();
    let (place, model) = (Path::new(words[0]), &MODELS[words[1].parse::<usize>().unwrap()]);
    let asked = AtomicBool::new(false);
    let joining = Joining {
        coordinator: place.join("address").to_str().unwrap().to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        token: token(),
        patience: PATIENCE,
    };
    match words[2] {
        "worker" => work(&mut begin(model), &joining, &asked).unwrap(),
        "server" => serve(&joining, &asked).unwrap(),
        servers => lead(place, model, servers.parse().unwrap(), &asked),
    }
}

/// The coordinator's part: it ends, with a checkpoint, when there is a file `stop`.
fn lead(place: &Path, model: &Model, servers: usize, asked: &AtomicBool) {
    let mut training = begin(model);
    if place.join("state").exists() {
        training.resume(&place.join("state")).unwrap();
    }
    let settings = Coordinating {
        listen: "127.0.0.1:0".to_owned(),
        address: Some(place.join("address")),
        order: Order { workers: WORKERS, servers },
        control: Some(place.join("control")),
        token: token(),
        patience: PATIENCE,
    };
    let files = Files { checkpoint: Some((place.join("state"), u64::MAX)), control: None };
    let stops = Stops { iterations: model.iterations, loss: None, change: None };
    let mut report = Report::file(&place.join("report"), training.iteration()).unwrap();
    let done = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                asked.fetch_or(place.join("stop").exists(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let outcome =
            coordinate(&mut training, &stops, &files, &mut report, asked, &mut |_| (), &settings).unwrap();
        done.store(true, Ordering::SeqCst);
        outcome
    });
    std::fs::write(place.join("outcome"), serde_json::to_string(&outcome).unwrap()).unwrap();
}

/// The processes of a job.
struct Crew(Vec<Child>);

impl Crew {
    fn start(&mut self, place: &Path, model: usize, part: &str, count: usize) {
        for _ in 0..count {
            let child = Command::new(std::env::current_exe().unwrap())
                .env(PART, format!("{} {model} {part}", place.display()))
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            self.0.push(child);
        }
    }

    fn end(&mut self) {
        for child in &mut self.0 {
            assert!(child.wait().unwrap().success());
        }
        self.0.clear();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn lines(place: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(place.join("report")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits for so many lines; the answer is when they were there.
fn until(place: &Path, count: usize) -> Instant {
    while lines(place).len() < count {
        std::thread::sleep(Duration::from_millis(1));
    }
    Instant::now()
}

fn order(place: &Path, servers: usize) {
    std::fs::write(place.join("new"), format!("workers={WORKERS} servers={servers}")).unwrap();
    std::fs::rename(place.join("new"), place.join("control")).unwrap();
}

/// One job that servers are added to at work: what the coordinator says of it, and its losses.
fn hot(model: usize, added: usize) -> (serde_json::Value, Vec<serde_json::Value>) {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut crew = Crew(Vec::new());
    order(place, 1);
    crew.start(place, model, "1", 1);
    crew.start(place, model, "worker", WORKERS);
    crew.start(place, model, "server", 1);
    until(place, 3);
    crew.start(place, model, "server", added);
    order(place, 1 + added);
    crew.end();
    let outcome: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(place.join("outcome")).unwrap()).unwrap();
    (outcome["scaled"][0].clone(), lines(place))
}

/// The same by a new start: seconds of standing still, and the losses.
fn restart(model: usize, added: usize) -> (f64, Vec<serde_json::Value>) {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut crew = Crew(Vec::new());
    order(place, 1);
    crew.start(place, model, "1", 1);
    crew.start(place, model, "worker", WORKERS);
    crew.start(place, model, "server", 1);
    until(place, 5);
    std::fs::write(place.join("stop"), "").unwrap();
    // The last line comes when the iteration under way is over; only then does training stand still.
    let mut last = (lines(place).len(), Instant::now());
    while !place.join("outcome").exists() {
        let count = lines(place).len();
        if count > last.0 {
            last = (count, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    crew.end();
    for name in ["stop", "address", "outcome"] {
        std::fs::remove_file(place.join(name)).unwrap();
    }
    order(place, 1 + added);
    crew.start(place, model, &(1 + added).to_string(), 1);
    crew.start(place, model, "worker", WORKERS);
    crew.start(place, model, "server", 1 + added);
    let again = until(place, last.0 + 1);
    crew.end();
    let all = lines(place);
    let mut seconds: Vec<f64> = all.iter().map(|line| line["seconds"].as_f64().unwrap()).collect();
    seconds.sort_by(f64::total_cmp);
    ((again - last.1).as_secs_f64() - seconds[seconds.len() / 2], all)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if let Ok(given) = std::env::var(PART) {
        return part(&given);
    }
    println!(
        "| numbers | servers | register | assign | migrate | update | stands still | new start | ratio |"
    );
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (number, model) in MODELS.iter().enumerate() {
        let place = tempfile::tempdir().unwrap();
        let mut report = Report::file(&place.path().join("report"), 0).unwrap();
        let stops = Stops { iterations: model.iterations, loss: None, change: None };
        let (asked, files) = (AtomicBool::new(false), Files::default());
        run(&mut begin(model), &stops, &files, &mut report, &asked, &mut |_| ()).unwrap();
        let losses = |lines: &[serde_json::Value]| -> Vec<u64> {
            lines.iter().map(|line| line["loss"].as_f64().unwrap().to_bits()).collect()
        };
        let wanted = losses(&lines(place.path()));
        let width = (21 + model.hidden + 1 + 10) * model.hidden + 10;
        for added in 1..=6 {
            let (mut steps, mut starts) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let (scaled, reported) = hot(number, added);
                assert_eq!(losses(&reported), wanted, "no loss is another");
                let (seconds, reported) = restart(number, added);
                assert_eq!(losses(&reported), wanted, "no loss is another");
                steps.push(scaled);
                starts.push(seconds);
            }
            let step = |name: &str| {
                1000.0 * median(steps.iter().map(|scaled| scaled[name].as_f64().unwrap()).collect())
            };
            let (still, start) = (step("pause_seconds"), 1000.0 * median(starts));
            println!(
                "| {width} | 1 to {} | {:.1} ms | {:.2} ms | {:.1} ms | {:.1} ms | {still:.1} ms | {start:.0} ms | 1/{:.1} |",
                1 + added,
                step("register_seconds"),
                step("assign_seconds"),
                step("migrate_seconds"),
                step("update_seconds"),
                start / still,
            );
        }
    }
}
