//! Several members of one job on loopback: losses are the same bits for any number of ranks, of workers and of servers, whoever comes
//! and goes; and who is lost is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trainyard_train::data::generator;
use trainyard_train::{
    Checkpoint, Coordinating, Ended, Files, Joining, Meeting, Notice, Order, Outcome, Place, Report, Scaled,
    Stops, Token, TrainError, Training, Values, algorithms, coordinate, run, serve, work,
};

const PATIENCE: Duration = Duration::from_secs(10);
const STOPS: Stops = Stops { iterations: 12, loss: None, change: None };

/// Each program that sums over rows.
const ALL: [(&str, &str, &str); 8] = [
    ("logistic", "method=gradient", "rows=3000"),
    ("logistic", "method=lbfgs", "rows=3000"),
    ("svm", "method=gradient", "rows=3000"),
    ("svm", "method=pegasos", "rows=3000"),
    ("kmeans", "clusters=7", "rows=3000"),
    ("mlp", "layers=2,hidden=9", "rows=1000"),
    ("trees", "depth=4", "rows=3000"),
    ("factorisation", "rank=5", "users=150,items=90"),
];
/// Wide enough for several chunks of a sum and many blocks.
const WIDE: (&str, &str, &str) = ("mlp", "hidden=300,layers=2,batch=250", "rows=300");
const SMALL: (&str, &str, &str) = ("mlp", "layers=2,hidden=20,batch=64,decay=0.1", "rows=700");

fn begin(which: (&str, &str, &str), seed: u64) -> Training {
    let (name, set, sizes) = which;
    let entry = algorithms::named(name).unwrap();
    let generator = generator(entry.generator).unwrap();
    let data = generator.make(&Values::new(name, generator.parameters, &[sizes]).unwrap(), 5).unwrap();
    Training::begin(entry, &Values::new(name, entry.parameters, &[set]).unwrap(), data, seed, 1).unwrap()
}

fn token() -> Token {
    Token::new("the secret of this test").unwrap()
}

/// The losses of a report.
fn losses(path: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    let loss = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["loss"].as_f64().unwrap().to_bits()
    };
    text.lines().map(loss).collect()
}

/// Losses and the bytes of the checkpoint of a job that one process does alone.
fn alone(which: (&str, &str, &str), stops: &Stops) -> (Vec<u64>, Vec<u8>) {
    let place = tempfile::tempdir().unwrap();
    let mut training = begin(which, 9);
    let mut report = Report::file(&place.path().join("r"), 0).unwrap();
    let files = Files { checkpoint: Some((place.path().join("s"), 1000)), control: None };
    run(&mut training, stops, &files, &mut report, &AtomicBool::new(false), &mut |_| ()).unwrap();
    (losses(&place.path().join("r")), std::fs::read(place.path().join("s")).unwrap())
}

fn meeting(place: &Path, rank: usize, world: usize) -> Meeting {
    let place_in_ring =
        Place { rank, world, local_rank: rank, local_world: world, master: ("127.0.0.1".to_owned(), 0) };
    Meeting { place: place_in_ring, address: Some(place.join("address")), token: token(), patience: PATIENCE }
}

#[test]
fn a_ring_of_any_size_has_the_losses_of_one_process() {
    for (number, which) in ALL.into_iter().chain([WIDE]).enumerate() {
        let stops = Stops { iterations: if which == WIDE { 2 } else { 12 }, ..STOPS };
        let (wanted, state) = alone(which, &stops);
        for world in [2 + number % 2, 5] {
            let place = tempfile::tempdir().unwrap();
            let ranks: Vec<JoinHandle<Outcome>> = (0..world)
                .map(|rank| {
                    let path = place.path().to_owned();
                    spawn(move || {
                        let mut training = begin(which, 9);
                        training.join(&meeting(&path, rank, world)).unwrap();
                        let mut report = Report::file(&path.join(format!("r{rank}")), 0).unwrap();
                        let checkpoint = (path.join(format!("s{rank}")), 1000);
                        let files = Files { checkpoint: Some(checkpoint), control: None };
                        let asked = AtomicBool::new(false);
                        run(&mut training, &stops, &files, &mut report, &asked, &mut |_| ()).unwrap()
                    })
                })
                .collect();
            for (rank, outcome) in ranks.into_iter().map(|rank| rank.join().unwrap()).enumerate() {
                assert_eq!(outcome.workers, Some(world));
                assert_eq!(losses(&place.path().join(format!("r{rank}"))), wanted, "{which:?} on {world}");
                assert!(std::fs::read(place.path().join(format!("s{rank}"))).unwrap() == state, "{which:?}");
            }
        }
    }
}

#[test]
fn the_ranks_of_a_ring_go_on_from_the_state_of_rank_0_and_end_when_one_is_asked() {
    let which = ALL[1];
    let (wanted, _) = alone(which, &Stops { iterations: 100_000, change: Some(1e-7), ..STOPS });
    let place = tempfile::tempdir().unwrap();
    let mut first = begin(which, 9);
    let stops = Stops { iterations: 5, ..STOPS };
    let files = Files { checkpoint: Some((place.path().join("s"), 1000)), control: None };
    let mut report = Report::file(&place.path().join("r"), 0).unwrap();
    run(&mut first, &stops, &files, &mut report, &AtomicBool::new(false), &mut |_| ()).unwrap();
    let ranks: Vec<JoinHandle<(Outcome, u64)>> = (0..3)
        .map(|rank| {
            let path = place.path().to_owned();
            spawn(move || {
                let mut training = begin(which, 9);
                if rank == 0 {
                    training.resume(&path.join("s")).unwrap();
                }
                training.join(&meeting(&path, rank, 3)).unwrap();
                let begun = training.iteration();
                let mut report = Report::file(&path.join(format!("r{rank}")), begun).unwrap();
                // Rank 2 is asked in its own time, in which the others know nothing of it.
                let asked = AtomicBool::new(false);
                let stops = Stops { iterations: 100_000, ..STOPS };
                let outcome = std::thread::scope(|scope| {
                    let asked = &asked;
                    scope.spawn(move || {
                        std::thread::sleep(Duration::from_millis(50));
                        asked.store(rank == 2, Ordering::SeqCst);
                    });
                    run(&mut training, &stops, &Files::default(), &mut report, asked, &mut |_| ()).unwrap()
                });
                (outcome, begun)
            })
        })
        .collect();
    let ended: Vec<(Outcome, u64)> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
    for (rank, (outcome, begun)) in ended.iter().enumerate() {
        assert_eq!((outcome.ended, *begun), (Ended::Asked, 5));
        assert_eq!(outcome.iterations, ended[0].0.iterations, "all end together");
        let losses = losses(&place.path().join(format!("r{rank}")));
        let common = losses.len().min(wanted.len() - 5);
        assert!(common > 0);
        assert_eq!(losses[..common], wanted[5..5 + common]);
    }
}

#[test]
fn a_rank_of_another_job_is_refused_and_a_lost_one_is_named_by_all() {
    let place = tempfile::tempdir().unwrap();
    let join = |rank: usize, world: usize, seed: u64| {
        let path = place.path().to_owned();
        spawn(move || begin(ALL[0], seed).join(&meeting(&path, rank, world)))
    };
    let (zero, one) = (join(0, 2, 9), join(1, 2, 8));
    for ended in [zero, one] {
        let told = ended.join().unwrap().unwrap_err().to_string();
        assert!(told.contains("its seed is `8`, and that of rank 0 is `9`"), "{told}");
    }
    std::fs::remove_file(place.path().join("address")).unwrap();
    // Rank 1 leaves after three iterations.
    let ranks: Vec<JoinHandle<Result<Outcome, TrainError>>> = (0..4)
        .map(|rank| {
            let path = place.path().to_owned();
            spawn(move || {
                let mut training = begin(ALL[0], 9);
                training.join(&meeting(&path, rank, 4))?;
                let stops = Stops { iterations: if rank == 1 { 3 } else { 1_000_000 }, ..STOPS };
                let mut report = Report::to("nowhere", Box::new(std::io::sink()));
                let asked = AtomicBool::new(false);
                run(&mut training, &stops, &Files::default(), &mut report, &asked, &mut |_| ())
            })
        })
        .collect();
    let told: Vec<Result<Outcome, TrainError>> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
    for (rank, told) in told.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let told = told.as_ref().unwrap_err().to_string();
        let named = ["rank 1: it closed", "rank 2 lost rank 1", "rank 0 lost rank 1"];
        assert!(named.iter().any(|named| told.contains(named)), "{rank}: {told}");
        assert!(told.contains("--resume"), "{told}");
    }
}

/// A job on servers, with each member on a thread of its own.
struct Job {
    place: TempDir,
    which: (&'static str, &'static str, &'static str),
    workers: Vec<JoinHandle<Result<(), TrainError>>>,
    servers: Vec<JoinHandle<Result<(), TrainError>>>,
}

fn joining(place: &Path) -> Joining {
    Joining {
        coordinator: place.join("address").to_str().unwrap().to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        token: token(),
        patience: PATIENCE,
    }
}

impl Job {
    fn new(which: (&'static str, &'static str, &'static str)) -> Self {
        Self { place: tempfile::tempdir().unwrap(), which, workers: Vec::new(), servers: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn add(&mut self, workers: usize, servers: usize) {
        for _ in 0..workers {
            let (path, which) = (self.place.path().to_owned(), self.which);
            self.workers
                .push(spawn(move || work(&mut begin(which, 9), &joining(&path), &AtomicBool::new(false))));
        }
        for _ in 0..servers {
            let path = self.place.path().to_owned();
            self.servers.push(spawn(move || serve(&joining(&path), &AtomicBool::new(false))));
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("beside"), text).unwrap();
        std::fs::rename(self.path("beside"), self.path(name)).unwrap();
    }

    /// Coordinates; each iteration's line goes to the report, and notices to `notice` with the place.
    fn coordinate(
        &self,
        order: Order,
        stops: &Stops,
        every: u64,
        report: &mut Report,
        notice: &mut dyn FnMut(Notice, &AtomicBool),
    ) -> Result<Outcome, TrainError> {
        let mut training = begin(self.which, 9);
        if self.path("s").exists() {
            training.resume(&self.path("s"))?;
        }
        let files = Files { checkpoint: Some((self.path("s"), every)), control: None };
        let settings = Coordinating {
            listen: "127.0.0.1:0".to_owned(),
            address: Some(self.path("address")),
            order,
            control: self.path("control").exists().then(|| self.path("control")),
            token: token(),
            patience: PATIENCE,
        };
        let asked = AtomicBool::new(false);
        let mut notice = |told| notice(told, &asked);
        coordinate(&mut training, stops, &files, report, &asked, &mut notice, &settings)
    }

    fn all_released(self) {
        for member in self.workers.into_iter().chain(self.servers) {
            member.join().unwrap().unwrap();
        }
    }
}

#[test]
fn a_job_on_any_number_of_workers_and_servers_has_the_losses_and_the_state_of_one_process() {
    for which in [SMALL, WIDE] {
        let stops = Stops { iterations: if which == WIDE { 2 } else { 6 }, ..STOPS };
        let (wanted, state) = alone(which, &stops);
        for (workers, servers) in [(1, 1), (2, 1), (3, 2), (5, 4)] {
            let mut job = Job::new(which);
            job.add(workers, servers);
            let mut report = Report::file(&job.path("r"), 0).unwrap();
            let order = Order { workers, servers };
            let outcome = job.coordinate(order, &stops, 3, &mut report, &mut |_, _| ()).unwrap();
            assert_eq!((outcome.workers, outcome.servers), (Some(workers), Some(servers)));
            assert_eq!(losses(&job.path("r")), wanted, "{which:?} on {workers} and {servers}");
            assert!(std::fs::read(job.path("s")).unwrap() == state, "{which:?} on {workers} and {servers}");
            job.all_released();
        }
    }
}

/// A report that gives an order after some of its lines, counted from when all who are expected have joined.
struct Orders {
    file: std::fs::File,
    lines: usize,
    orders: Vec<(usize, &'static str)>,
    control: PathBuf,
    missing: Arc<AtomicUsize>,
    finished: Arc<AtomicBool>,
}

impl std::io::Write for Orders {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.missing.load(Ordering::SeqCst) == 0 {
            self.lines += 1;
        }
        match self.orders.first() {
            Some((after, order)) if *after <= self.lines => {
                let beside = self.control.with_extension("part");
                std::fs::write(&beside, order)?;
                std::fs::rename(&beside, &self.control)?;
                self.orders.remove(0);
            }
            Some(_) => {}
            None => self.finished.store(true, Ordering::SeqCst),
        }
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

#[test]
fn workers_and_servers_that_come_and_go_change_no_loss() {
    come_and_go(SMALL, 11);
    // With one update in a pass the clock always is where all measure the loss, those who leave too.
    come_and_go(("mlp", "layers=2,hidden=20,batch=0,step=0.001", "rows=700"), 1);
}

fn come_and_go(which: (&'static str, &'static str, &'static str), updates: u64) {
    let mut job = Job::new(which);
    // More than are wanted at first: they stand by.
    job.add(4, 4);
    job.write("control", "workers=2 servers=1");
    let orders = vec![
        (3, "servers=3"),
        (6, "{\"workers\": 4}"),
        (9, "workers=1 servers=4"),
        (12, "workers=1 servers=2"),
        (15, "workers=9"),
        (18, "workers=1 servers=1"),
    ];
    let (missing, finished) = (Arc::new(AtomicUsize::new(8)), Arc::new(AtomicBool::new(false)));
    let file = std::fs::File::create(job.path("r")).unwrap();
    let (counted, over) = (Arc::clone(&missing), Arc::clone(&finished));
    let orders =
        Orders { file, lines: 0, orders, control: job.path("control"), missing: counted, finished: over };
    let mut report = Report::to("r", Box::new(orders));
    let mut waits = 0;
    let mut notice = |notice, asked: &AtomicBool| match notice {
        Notice::Joined { .. } => drop(missing.fetch_sub(1, Ordering::SeqCst)),
        Notice::Saved { .. } => asked.store(finished.load(Ordering::SeqCst), Ordering::SeqCst),
        Notice::Missing { workers: 8, servers: 0 } => waits += 1,
        _ => {}
    };
    let stops = Stops { iterations: 3000, ..STOPS };
    let order = Order { workers: 2, servers: 1 };
    let outcome = job.coordinate(order, &stops, 7, &mut report, &mut notice).unwrap();
    assert_eq!(waits, 1, "an order that waits is told once");
    let iterations = outcome.iterations;
    let (wanted, state) = alone(which, &Stops { iterations, ..STOPS });
    assert_eq!(losses(&job.path("r")), wanted);
    assert!(std::fs::read(job.path("s")).unwrap() == state);
    let changes: Vec<[usize; 4]> = outcome
        .scaled
        .iter()
        .map(|scaled| [scaled.workers.from, scaled.workers.to, scaled.servers.from, scaled.servers.to])
        .collect();
    assert_eq!(changes, [[2, 2, 1, 3], [2, 4, 3, 3], [4, 1, 3, 4], [1, 1, 4, 2], [1, 1, 2, 1]]);
    let versions: Vec<u64> = outcome.scaled.iter().map(|scaled| scaled.version).collect();
    assert!(versions.is_sorted() && versions[0] >= 3 * updates, "{versions:?}");
    assert!(versions[4] <= iterations * updates, "{versions:?}");
    for Scaled { moved, servers, pause_seconds, .. } in &outcome.scaled {
        assert_eq!(*moved > 0, servers.from != servers.to);
        assert!(*pause_seconds > 0.0 && *pause_seconds < 5.0, "{outcome:?}");
    }
    job.all_released();
}

#[test]
fn from_a_checkpoint_a_job_goes_on_with_other_numbers_and_also_without_servers() {
    let stops = Stops { iterations: 9, ..STOPS };
    let (wanted, state) = alone(SMALL, &stops);
    let mut job = Job::new(SMALL);
    job.add(2, 3);
    let mut report = Report::file(&job.path("r"), 0).unwrap();
    let early = Stops { iterations: 3, ..STOPS };
    job.coordinate(Order { workers: 2, servers: 3 }, &early, 100, &mut report, &mut |_, _| ()).unwrap();
    for member in job.workers.drain(..).chain(job.servers.drain(..)) {
        member.join().unwrap().unwrap();
    }
    std::fs::remove_file(job.path("address")).unwrap();
    job.add(3, 1);
    let mut report = Report::file(&job.path("r"), 3).unwrap();
    let early = Stops { iterations: 6, ..STOPS };
    job.coordinate(Order { workers: 3, servers: 1 }, &early, 100, &mut report, &mut |_, _| ()).unwrap();
    let mut training = begin(SMALL, 9);
    training.resume(&job.path("s")).unwrap();
    let mut report = Report::file(&job.path("r"), 6).unwrap();
    let files = Files { checkpoint: Some((job.path("s"), 100)), control: None };
    run(&mut training, &stops, &files, &mut report, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(losses(&job.path("r")), wanted);
    assert!(std::fs::read(job.path("s")).unwrap() == state);
    assert_eq!(Checkpoint::read(&job.path("s")).unwrap().iteration(), 9);
    job.all_released();
}

#[test]
fn who_cannot_take_part_is_told_why() {
    let mut job = Job::new(SMALL);
    job.add(1, 1);
    let (path, which) = (job.place.path().to_owned(), SMALL);
    let stranger = spawn(move || work(&mut begin(which, 8), &joining(&path), &AtomicBool::new(false)));
    let told = work(&mut begin(ALL[0], 9), &joining(job.place.path()), &AtomicBool::new(false)).unwrap_err();
    assert!(told.to_string().contains("logistic cannot train with parameter servers"), "{told}");
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let stops = Stops { iterations: 3000, ..STOPS };
    let mut refused = false;
    let mut notice = |notice, asked: &AtomicBool| match notice {
        Notice::Refused { .. } => refused = true,
        Notice::Saved { .. } => asked.store(refused, Ordering::SeqCst),
        _ => {}
    };
    let order = Order { workers: 1, servers: 1 };
    let outcome = job.coordinate(order, &stops, 1, &mut report, &mut notice).unwrap();
    assert_eq!(outcome.ended, Ended::Asked);
    let told = stranger.join().unwrap().unwrap_err().to_string();
    assert!(told.contains("its seed is `8`, and that of this job is `9`"), "{told}");
    job.all_released();
}

#[test]
fn a_job_whose_members_do_not_come_ends_with_what_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let settings = Coordinating {
        listen: "127.0.0.1:0".to_owned(),
        address: None,
        order: Order { workers: 2, servers: 1 },
        control: None,
        token: token(),
        patience: Duration::from_millis(200),
    };
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let began = Instant::now();
    let (asked, files) = (AtomicBool::new(false), Files::default());
    let ended = coordinate(&mut begin(SMALL, 9), &STOPS, &files, &mut report, &asked, &mut |_| (), &settings);
    let told = ended.unwrap_err().to_string();
    assert!(told.contains("2 workers and 1 servers are missing"), "{told}");
    assert!(began.elapsed() < Duration::from_secs(5));
    let joining = Joining { patience: Duration::from_millis(200), ..joining(place.path()) };
    assert!(
        matches!(serve(&joining, &asked), Err(TrainError::File { .. })),
        "there is no file with an address"
    );
}
