//! What Slurm's `sacct` prints: `--parsable2` with a header, or another `--delimiter` of comma or bar.
//!
//! Source: slurm.schedmd.com/sacct.html. A good dump is
//! `sacct -a -X -P -S ... -o JobID,Account,User,Submit,Start,End,Elapsed,State,ReqTRES,AllocTRES,NNodes,Timelimit`.
//!
//! - Steps (`123.batch`) belong to their job and are passed over; elements of an array (`123_4`) are jobs.
//! - GPUs, CPUs and memory are those of ReqTRES, else of AllocTRES, else of ReqGRES times NNodes and of ReqCPUS. A type
//!   of GPU that was asked for by name (`gres/gpu:a100=4`) is wanted.
//! - Times have no zone: that of the machine where `sacct` ran, of which nothing is known, so UTC is assumed.
//! - A job without an end was still running; it ran for `Elapsed`, or else until the last moment that the dump tells of.
//! - A run that was requeued (`REQUEUED`) is left out. Other records with one id are for `--on-duplicate`.

use trainyard_sched::model::{Declared, GpuTypeSet, Span, Topology, Wanted};

use super::error::TraceError;
use super::fields::{GPU_LIMIT, Header, MOST_BYTES, Problem, Record, Splitter, whole};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::logged::{Demand, Stamps, ending, is_open};
use super::wall::Clock;
use super::{Column, Format, Repairs};
use crate::truth::Ending;

const CPU_LIMIT: f64 = 1e6;
const SEPARATORS: [u8; 2] = [b'|', b','];

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "sacct",
    title: "what Slurm's sacct prints with --parsable2",
    columns: &[
        Column { name: "JobID", meaning: "the job's id; `JobIDRaw` will do" },
        Column { name: "Account", meaning: "becomes the tenant, else `User` does" },
        Column { name: "User", meaning: "read where there is no `Account`" },
        Column { name: "Submit", meaning: "submission, local wall time" },
        Column { name: "Start", meaning: "start, local wall time, or `Unknown`" },
        Column { name: "End", meaning: "end, local wall time, or `Unknown`" },
        Column { name: "Elapsed", meaning: "run time of a job without an end; optional" },
        Column { name: "State", meaning: "how it ended" },
        Column {
            name: "ReqTRES",
            meaning: "what was asked for, as `cpu=4,mem=64G,gres/gpu:a100=2`; optional",
        },
        Column { name: "AllocTRES", meaning: "what was given; read where nothing was asked for; optional" },
        Column { name: "ReqGRES", meaning: "GPUs on each node, as `gpu:a100:2`; older Slurm; optional" },
        Column { name: "ReqCPUS", meaning: "CPU cores, where TRES do not say; optional" },
        Column {
            name: "NNodes",
            meaning: "machines; GPUs of a job on one machine must be on one node; optional",
        },
        Column { name: "Timelimit", meaning: "declared limit, as `1-02:00:00`; optional" },
    ],
    detect: |head| separator(head.line).is_some(),
    read,
};

const ENDINGS: &[(&str, Ending)] = &[
    ("COMPLETED", Ending::Completed),
    ("CANCELLED", Ending::Killed),
    ("PREEMPTED", Ending::Killed),
    ("FAILED", Ending::Failed),
    ("TIMEOUT", Ending::Failed),
    ("DEADLINE", Ending::Failed),
    ("NODE_FAIL", Ending::Failed),
    ("BOOT_FAIL", Ending::Failed),
    ("OUT_OF_MEMORY", Ending::Failed),
    ("RUNNING", Ending::Censored),
    ("SUSPENDED", Ending::Censored),
    ("COMPLETING", Ending::Completed),
];

/// What stands between the columns of this header.
fn separator(line: &str) -> Option<u8> {
    SEPARATORS.into_iter().find(|separator| {
        let names: Vec<&str> = line.split(char::from(*separator)).map(str::trim).collect();
        let has = |name: &str| names.contains(&name);
        (has("JobID") || has("JobIDRaw")) && has("Submit") && has("State")
    })
}

struct Columns {
    count: usize,
    id: usize,
    tenant: Option<usize>,
    submitted: usize,
    started: usize,
    ended: usize,
    elapsed: Option<usize>,
    state: usize,
    resources: [Option<usize>; 2],
    gres: Option<usize>,
    cpus: Option<usize>,
    nodes: Option<usize>,
    limit: Option<usize>,
}

impl Columns {
    fn of(header: &Header, lines: &Lines<'_>) -> Result<Self, TraceError> {
        let either = |a: &str, b: &str| header.find(a).or_else(|| header.find(b));
        Ok(Self {
            count: header.len(),
            id: either("JobID", "JobIDRaw").map_or_else(|| header.need(lines, "JobID"), Ok)?,
            tenant: either("Account", "User"),
            submitted: header.need(lines, "Submit")?,
            started: header.need(lines, "Start")?,
            ended: header.need(lines, "End")?,
            elapsed: header.find("Elapsed"),
            state: header.need(lines, "State")?,
            resources: [header.find("ReqTRES"), header.find("AllocTRES")],
            gres: either("ReqGRES", "ReqGres"),
            cpus: either("ReqCPUS", "NCPUS"),
            nodes: header.find("NNodes"),
            limit: header.find("Timelimit"),
        })
    }
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let separator = lines.peek()?.and_then(|line| separator(line.text().ok()?)).unwrap_or(b'|');
    let header = Header::read_with(lines, separator)?;
    let columns = Columns::of(&header, lines)?;
    let clock = import.clock("UTC")?;
    let repairs = import.options.repairs;
    let mut spread = false;
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, separator));
        let row = row.and_then(|record| record.expect(columns.count).map(|()| record));
        let record = match row {
            Ok(record) => record,
            Err(problem) => {
                import.row(line.number, line.bytes, Err(problem));
                continue;
            }
        };
        if record.get(columns.id).contains('.') {
            let what = "the row is a step of a job";
            import.pass(line.number, Problem::new(what, "JobID", record.get(columns.id)));
            continue;
        }
        let asked = asked(&record, &columns);
        let gpu_types = match &asked {
            Ok(Asked { gpu_type: Some(name), .. }) => import.gpu_types(line.number, name)?,
            _ => GpuTypeSet::ALL,
        };
        let nodes =
            asked.as_ref().map_or(0, |asked| if asked.demand.gpus > 1 { asked.demand.nodes } else { 0 });
        spread |= nodes > 1;
        let topology = if nodes == 1 { Topology::SameNode } else { Topology::Anywhere };
        let draft = asked.and_then(|asked| draft(&record, &columns, &asked, &clock, repairs));
        let wanted = Wanted { gpu_types, topology, ..Wanted::default() };
        import.row(line.number, line.bytes, draft.map(|draft| Draft { wanted, ..draft }));
    }
    if spread {
        import.assume("jobs with GPUs on several machines may be spread over any number of them");
    }
    Ok(())
}

fn draft<'a>(
    record: &Record<'a>,
    columns: &Columns,
    asked: &Asked<'_>,
    clock: &Clock,
    repairs: Repairs,
) -> Result<Draft<'a>, Problem> {
    let name = record.get(columns.id);
    if name.is_empty() {
        return Err(Problem::new("JobID is missing", "JobID", "(empty)"));
    }
    let state = record.get(columns.state);
    // `CANCELLED by 1000` and `CANCELLED+` are one word and more.
    let word = state.split([' ', '+']).next().unwrap_or_default();
    if word == "REQUEUED" {
        return Err(Problem::new("the run was requeued; a later record has the job", "State", state));
    }
    let shape = asked.demand.shape(("ReqTRES", "without GPUs and CPUs"))?;
    let mut remarks = Vec::new();
    let stamps = Stamps {
        submitted: ("Submit", record.get(columns.submitted)),
        started: ("Start", record.get(columns.started)),
        ended: ("End", record.get(columns.ended)),
    };
    let mut run = stamps.run(clock, repairs, &mut remarks)?;
    let ending = ending(ENDINGS, ("State", word), &mut remarks);
    let elapsed = columns.elapsed.and_then(|column| length(record.get(column)));
    let mut draft =
        if let (Some(since), Some(elapsed)) = (run.running_since, elapsed.filter(|span| span.0 > 0)) {
            // The dump says how long it ran; no need to infer it.
            (run.running_since, run.ended, run.length) = (None, Some(since + elapsed), elapsed);
            run.draft(shape, Ending::Censored, remarks)
        } else {
            run.draft(shape, ending, remarks)
        };
    let limit = columns.limit.and_then(|column| length(record.get(column))).filter(|limit| limit.0 > 0);
    draft.declared = limit.map(|limit| Declared { limit: Some(limit), ..Declared::default() });
    let tenant = columns.tenant.map_or("", |column| record.get(column));
    Ok(Draft { name: Some(name), tenant, ..draft })
}

/// What a job asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked<'r> {
    demand: Demand,
    gpu_type: Option<&'r str>,
}

fn asked<'r>(record: &Record<'r>, columns: &Columns) -> Result<Asked<'r>, Problem> {
    let get = |column: Option<usize>| column.map_or("", |column| record.get(column));
    let names = ["ReqTRES", "AllocTRES"];
    let mut asked = Asked::default();
    for (name, column) in names.into_iter().zip(columns.resources) {
        if asked == Asked::default() && !is_open(get(column)) {
            asked = tres(name, get(column))?;
        }
    }
    if asked.demand.nodes == 0 && !get(columns.nodes).is_empty() {
        asked.demand.nodes = whole("NNodes", get(columns.nodes), 0.0, GPU_LIMIT)? as u32;
    }
    if asked.demand.cpu_milli == 0 && !get(columns.cpus).is_empty() {
        asked.demand.cpu_milli = whole("ReqCPUS", get(columns.cpus), 0.0, CPU_LIMIT)? as u64 * 1000;
    }
    if asked.demand.gpus == 0 {
        gres(get(columns.gres), &mut asked)?;
    }
    Ok(asked)
}

/// `billing=8,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1`: amounts over all nodes.
fn tres<'r>(field: &str, text: &'r str) -> Result<Asked<'r>, Problem> {
    let mut asked = Asked::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let odd = || Problem::new(format!("{field} has a part that is no amount"), field, part);
        let (key, amount) = part.split_once('=').ok_or_else(odd)?;
        match key {
            "cpu" => asked.demand.cpu_milli = whole(field, amount, 0.0, CPU_LIMIT)? as u64 * 1000,
            "node" => asked.demand.nodes = whole(field, amount, 0.0, GPU_LIMIT)? as u32,
            "mem" => asked.demand.memory_bytes = memory(amount).ok_or_else(odd)?,
            _ => {
                let Some(kind) = key.strip_prefix("gres/gpu") else { continue };
                // Both the sum and the part of each type may stand there.
                let count = whole(field, amount, 0.0, GPU_LIMIT)? as u32;
                asked.demand.gpus = asked.demand.gpus.max(count);
                asked.gpu_type = kind.strip_prefix(':').or(asked.gpu_type);
            }
        }
    }
    Ok(asked)
}

/// `gpu:a100:2`, `gpu:2` or `gres:gpu:2`, on each node.
fn gres<'r>(text: &'r str, asked: &mut Asked<'r>) -> Result<(), Problem> {
    for part in text.split(',') {
        let part = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
        let words: Vec<&str> = part.split(':').collect();
        let (kind, count) = match words[..] {
            ["gpu"] => (None, "1"),
            ["gpu", count] if count.starts_with(|c: char| c.is_ascii_digit()) => (None, count),
            ["gpu", kind] => (Some(kind), "1"),
            ["gpu", kind, count] => (Some(kind), count),
            _ => continue,
        };
        let each = whole("ReqGRES", count, 0.0, GPU_LIMIT)? as u32;
        asked.demand.gpus = asked.demand.gpus.saturating_add(each.saturating_mul(asked.demand.nodes.max(1)));
        asked.gpu_type = kind.or(asked.gpu_type);
    }
    if f64::from(asked.demand.gpus) > GPU_LIMIT {
        return Err(Problem::new("more GPUs than are read", "ReqGRES", text));
    }
    Ok(())
}

/// `64G` or `4000M`; a plain number is in megabytes. Slurm's units are powers of 1024.
fn memory(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "K" => 1,
        "" | "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    let amount: f64 = digits.parse().ok()?;
    let bytes = amount * 1024_f64.powi(power);
    (0.0..=MOST_BYTES).contains(&bytes).then_some(bytes as u64)
}

/// `1-02:00:00`, `1-02`, `02:00:00` or `30:00`; `None` for `UNLIMITED`, `Partition_Limit` and the like.
fn length(text: &str) -> Option<Span> {
    let (days, clock) = text.split_once('-').map_or((None, text), |(days, clock)| (Some(days), clock));
    let mut parts = Vec::new();
    for part in clock.split(':') {
        // Fractions of seconds are printed by some versions.
        parts.push(part.split('.').next()?.parse::<u64>().ok().filter(|part| *part < 1_000_000)?);
    }
    let seconds = match (days.is_some(), &parts[..]) {
        (_, [hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        (true, [hours, minutes]) => hours * 3600 + minutes * 60,
        (true, [hours]) => hours * 3600,
        (false, [minutes, seconds]) => minutes * 60 + seconds,
        _ => return None,
    };
    let days: u64 = days.map_or(Some(0), |days| days.parse().ok().filter(|days| *days < 1_000_000))?;
    Some(Span::from_secs(days * 86_400 + seconds))
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{GpuTypeId, Parallelism, Resources, Time};

    use super::*;
    use crate::trace::{OnDuplicate, Options, TraceError, read_from};
    use crate::workload::{Done, Workload};

    const HEAD: &str =
        "JobID|Account|User|Submit|Start|End|Elapsed|State|ReqTRES|AllocTRES|NNodes|Timelimit\n";

    fn read_rows(rows: &str, options: &Options) -> Result<Workload, TraceError> {
        read_from("dump.txt", format!("{HEAD}{rows}").as_bytes(), options)
    }

    fn told(workload: &Workload, what: &str) -> (Done, u64) {
        let found = workload.report.findings.iter().find(|finding| finding.what.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {:?}", workload.report.findings));
        (found.done, found.count)
    }

    #[test]
    fn gpus_of_one_machine_stay_together() {
        let row = |id: u32, tres: &str| {
            format!(
                "{id}|ml|ann|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|00:01:00|COMPLETED|{tres}|||\n"
            )
        };
        let rows = row(1, "cpu=8,gres/gpu=4,node=1")
            + &row(2, "cpu=8,gres/gpu=4,node=2")
            + &row(3, "cpu=8,gres/gpu=4");
        let read = read_rows(&rows, &Options::default()).unwrap();
        let topologies: Vec<Topology> = read.jobs.iter().map(|(job, _)| job.wanted.topology).collect();
        assert_eq!(topologies, [Topology::SameNode, Topology::Anywhere, Topology::Anywhere]);
        assert_eq!(told(&read, "spread over any number"), (Done::Assumed, 1));
    }

    #[test]
    fn jobs_arrays_and_steps_are_told_apart() {
        let rows = "\
            123_4|ml|ann|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|00:01:00|COMPLETED|billing=8,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1||1|1-02:00:00\n\
            123_4.batch|ml||2024-03-01T10:01:00|2024-03-01T10:01:00|2024-03-01T10:02:00|00:01:00|COMPLETED||cpu=16|1|\n\
            124|ml|ann|2024-03-01T10:00:05|2024-03-01T10:01:00|2024-03-01T10:03:00|00:02:00|CANCELLED by 1000|cpu=8,mem=4000M,node=2||2|UNLIMITED\n\
            125|ops|bob|2024-03-01T10:00:06|Unknown|Unknown|00:00:00|PENDING|cpu=1,gres/gpu=1||1|30:00\n\
            126|ops|bob|2024-03-01T10:00:07|None|2024-03-01T10:00:09|00:00:00|CANCELLED by 7|cpu=1||1|Partition_Limit\n\
            127|ops|bob|2024-03-01T10:00:08|2024-03-01T10:00:08|Unknown|02:00:00|RUNNING||cpu=2,gres/gpu=2|1|\n\
            128|ops|bob|2024-03-01T10:00:09|2024-03-01T10:00:10|2024-03-01T10:00:20|00:00:10|OUT_OF_MEMORY|cpu=2,gres/gpu=1||1|\n\
            129|ops|bob|2024-03-01T10:00:10|2024-03-01T10:00:10|2024-03-01T10:00:20|00:00:10|REQUEUED|cpu=2,gres/gpu=1||1|\n\
            130|ops|bob|2024-03-01T10:00:11|2024-03-01T10:00:11|2024-03-01T10:00:21|00:00:10|MELTED|cpu=2,gres/gpu=x||1|\n";
        let read = read_rows(rows, &Options::default()).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (9, 4));
        let jobs: Vec<(&str, f64, Ending)> =
            read.jobs.iter().map(|(job, truth)| (&*job.name, truth.iterations, truth.ending)).collect();
        let expected = [
            ("123_4", 60.0, Ending::Completed),
            ("124", 120.0, Ending::Killed),
            ("127", 7200.0, Ending::Censored),
            ("128", 10.0, Ending::Failed),
        ];
        assert_eq!(jobs, expected);
        let worker = Resources { cpu_milli: 4000, memory_bytes: 16 << 30, ..Resources::gpus(1) };
        let (array, gang) = (&read.jobs[0].0, &read.jobs[1].0);
        assert_eq!(array.shape, Parallelism::rigid(4, worker));
        assert_eq!(array.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0)]));
        assert_eq!(&*read.gpu_types[0], "a100");
        assert_eq!(array.declared.duration(), Some(Span::from_secs(26 * 3600)));
        let half = Resources { memory_bytes: 2000 << 20, ..Resources::cpus(4) };
        assert_eq!(gang.shape, Parallelism::rigid(2, half));
        assert_eq!(gang.declared.limit, None);
        assert_eq!(told(&read, "step of a job"), (Done::Noted, 1));
        assert_eq!(told(&read, "never began"), (Done::Dropped, 2));
        assert_eq!(told(&read, "requeued"), (Done::Dropped, 1));
        assert_eq!(told(&read, "ReqTRES is not a finite number"), (Done::Dropped, 1));
        assert_eq!(read.jobs[1].0.submitted, Time::from_secs(5));
    }

    #[test]
    fn records_with_one_id_are_for_the_user_to_judge() {
        let row = "9|ml|ann|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|00:01:00|NODE_FAIL|cpu=1||1|\n";
        let rows =
            format!("{row}{}", row.replace("10:02:00|00:01:00|NODE_FAIL", "10:03:00|00:02:00|COMPLETED"));
        let error = read_rows(&rows, &Options::default()).unwrap_err();
        assert!(matches!(error, TraceError::DuplicateJob { first: 2, second: 3, .. }), "{error}");
        let options = Options { on_duplicate: OnDuplicate::Suffix, ..Options::default() };
        let read = read_rows(&rows, &options).unwrap();
        assert_eq!([&*read.jobs[0].0.name, &*read.jobs[1].0.name], ["9", "9-2"]);
    }

    #[test]
    fn older_dumps_have_gres_on_each_node_and_commas_may_separate() {
        let text = "JobIDRaw,User,Submit,Start,End,State,ReqGRES,ReqCPUS,NNodes\n\
            1,ann,2024-03-01T10:00:00,2024-03-01T10:01:00,2024-03-01T10:02:00,COMPLETED,gpu:v100:2,8,2\n\
            2,ann,2024-03-01T10:00:00,2024-03-01T10:01:00,2024-03-01T10:02:00,COMPLETED,gres:gpu:1,8,1\n\
            3,ann,2024-03-01T10:00:00,2024-03-01T10:01:00,2024-03-01T10:02:00,FOGGY,,8,1\n";
        let read = read_from("dump.csv", text.as_bytes(), &Options::default()).unwrap();
        let gpus: Vec<u64> = read.jobs.iter().map(|(job, _)| job.shape.minimum().gpu_milli / 1000).collect();
        assert_eq!(gpus, [4, 1, 0]);
        assert_eq!(told(&read, "State is no known word"), (Done::Assumed, 1));
    }

    #[test]
    fn lengths_of_time_are_as_slurm_prints_them() {
        let cases =
            [("1-02:00:00", 93_600), ("1-02", 93_600), ("02:00:00", 7200), ("30:00", 1800), ("00:00.5", 0)];
        for (text, seconds) in cases {
            assert_eq!(length(text), Some(Span::from_secs(seconds)), "{text}");
        }
        for text in ["UNLIMITED", "Partition_Limit", "INVALID", "", "5", "1-x", "99999999999999999999:00"] {
            assert_eq!(length(text), None, "{text}");
        }
        assert_eq!((memory("64G"), memory("0"), memory("7Q")), (Some(64 << 30), Some(0), None));
        assert_eq!(
            (memory("1000000000P"), memory("1000T")),
            (None, Some(1000 << 40)),
            "no amount is cut to the limit"
        );
    }

    #[test]
    fn what_still_ran_is_part_of_what_the_dump_tells_of() {
        let head = "JobID|User|Submit|Start|End|Elapsed|State|ReqTRES\n";
        let at = |clock: &str| format!("2024-03-01T{clock}");
        let row = |id: u32, start: &str, end: &str, elapsed: &str, state: &str| {
            format!("{id}|u|{}|{}|{end}|{elapsed}|{state}|gres/gpu=1\n", at("09:00:00"), at(start))
        };
        let rows = [
            row(1, "10:00:00", &at("10:10:00"), "00:10:00", "COMPLETED"),
            row(2, "10:20:00", "Unknown", "", "RUNNING"),
            row(3, "10:30:00", "Unknown", "", "RUNNING"),
        ];
        let lengths = |text: String| {
            let read = read_from("dump.txt", text.as_bytes(), &Options::default()).unwrap();
            let jobs: Vec<(String, f64)> =
                read.jobs.iter().map(|(job, truth)| (job.name.to_string(), truth.iterations)).collect();
            (jobs, read)
        };
        let job = |name: &str, length: f64| (name.to_owned(), length);
        let (jobs, read) = lengths(format!("{head}{}", rows.concat()));
        assert_eq!(jobs, [job("1", 600.0), job("2", 600.0)]);
        assert_eq!(told(&read, "began at the trace's last moment"), (Done::Dropped, 1));
        assert_eq!(told(&read, "still running"), (Done::Noted, 1));
        assert_eq!((read.report.rows, read.report.kept), (3, 2));
        // A job whose elapsed time is known tells how far the dump reaches.
        let later = row(4, "10:00:00", "Unknown", "01:00:00", "RUNNING");
        let (jobs, _) = lengths(format!("{head}{}{later}", rows.concat()));
        assert_eq!(jobs, [job("1", 600.0), job("2", 2400.0), job("3", 1800.0), job("4", 3600.0)]);
    }

    #[test]
    fn a_study_chooses_by_the_length_that_was_seen() {
        let text = "JobID|User|Submit|Start|End|State|ReqTRES\n\
            1|u|2024-03-01T09:00:00|2024-03-01T09:00:00|2024-03-01T12:00:00|COMPLETED|gres/gpu=1\n\
            2|u|2024-03-01T09:00:00|2024-03-01T10:00:00|Unknown|RUNNING|gres/gpu=3\n\
            3|u|2024-03-01T09:00:00|2024-03-01T11:50:00|Unknown|RUNNING|gres/gpu=1\n";
        let options = Options { preset: Some(crate::trace::Preset::Blox), ..Options::default() };
        let read = read_from("dump.txt", text.as_bytes(), &options).unwrap();
        let jobs: Vec<(&str, f64, u64)> = read
            .jobs
            .iter()
            .map(|(job, truth)| (&*job.name, truth.iterations, job.shape.minimum().gpu_milli))
            .collect();
        assert_eq!(jobs, [("1", 10_800.0, 1000), ("2", 7200.0, 1000)]);
        assert_eq!(told(&read, "less than 31.6"), (Done::Dropped, 1));
        assert_eq!(told(&read, "it is now 1"), (Done::Repaired, 1));
    }
}
