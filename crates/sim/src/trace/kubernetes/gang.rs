//! Pods and jobs that belong together, and the one job that they become.

use trainyard_sched::model::{Declared, GPU, Parallelism, Resources, Span, Time, Wanted};

use super::super::error::TraceError;
use super::super::fields::{GPU_LIMIT, Problem, Remark};
use super::super::import::{Draft, Import};
use super::super::logged::{Run, never_ran};
use super::super::options::Repairs;
use super::objects::Request;
use crate::truth::Ending;
use crate::workload::Done;

/// One object of the list.
pub(super) struct Piece {
    pub(super) line: u64,
    /// Whether it is a batch job and not a pod.
    pub(super) is_job: bool,
    /// How many pods of it there are at one time.
    pub(super) count: u32,
    pub(super) request: Request,
    pub(super) gpu_types: String,
    pub(super) submitted: Time,
    pub(super) started: Option<Time>,
    /// No end means that it was still running.
    pub(super) ended: Option<Time>,
    pub(super) ending: Ending,
    pub(super) limit_s: Option<u64>,
    pub(super) remarks: Vec<Remark>,
}

/// What becomes one job.
pub(super) struct Gang {
    name: String,
    namespace: String,
    pieces: Vec<Piece>,
}

impl Gang {
    pub(super) const fn new(namespace: String) -> Self {
        Self { name: String::new(), namespace, pieces: Vec::new() }
    }

    /// Adds a piece with its name; a batch job's own name is that of the gang.
    pub(super) fn add(&mut self, name: String, piece: Piece) {
        if self.pieces.is_empty() || piece.is_job {
            self.name = name;
        }
        self.pieces.push(piece);
    }

    /// The line of its first piece.
    pub(super) fn line(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.line)
    }

    /// The pieces that say what the gang is: the batch job, if it is there, else the pods that ran, those with GPUs if
    /// there are any.
    fn workers(&self) -> Vec<&Piece> {
        if let Some(job) = self.pieces.iter().find(|piece| piece.is_job) {
            return vec![job];
        }
        let ran = || self.pieces.iter().filter(|piece| piece.started.is_some());
        let with_gpus: Vec<&Piece> = ran().filter(|piece| piece.request.gpus > 0).collect();
        if with_gpus.is_empty() { ran().collect() } else { with_gpus }
    }

    /// Makes the job and hands it over; pieces beyond the first are told as parts.
    pub(super) fn hand_over(&self, import: &mut Import<'_>) -> Result<(), TraceError> {
        let workers = self.workers();
        let line = workers.first().map_or_else(|| self.line(), |piece| piece.line);
        let words = workers.first().map_or("", |piece| piece.gpu_types.as_str());
        let gpu_types = import.gpu_types(line, words)?;
        let wanted = Wanted { gpu_types, ..Wanted::default() };
        let draft = self.draft(&workers, import.options.repairs);
        import.row(line, self.name.as_bytes(), draft.map(|draft| Draft { wanted, ..draft }));
        for piece in self.pieces.iter().filter(|piece| piece.line != line) {
            let what = "the pod is a part of a job that is told with another line";
            import.pass(piece.line, Problem::new(what, "", &self.name));
        }
        Ok(())
    }

    fn draft(&self, workers: &[&Piece], repairs: Repairs) -> Result<Draft<'_>, Problem> {
        let mut remarks: Vec<Remark> = workers.iter().flat_map(|piece| piece.remarks.clone()).collect();
        let began = workers.iter().filter_map(|piece| piece.started).min();
        let (Some(started), Some(first)) = (began, workers.first()) else {
            return Err(never_ran(("", &self.name)));
        };
        let submitted = self.pieces.iter().map(|piece| piece.submitted).min().unwrap_or_default();
        repairs.wait(submitted, started, ("startTime", &self.name), &mut remarks)?;
        let request = workers.iter().fold(Request::default(), |most, piece| most.max(piece.request));
        if workers.iter().any(|piece| piece.request != request) {
            let what = "the pods of the gang ask for different amounts; the largest is taken for all";
            remarks.push(Remark::assumed(what, "", &self.name));
        }
        if workers.iter().any(|piece| piece.gpu_types != first.gpu_types) {
            let what =
                "the pods of the gang want different types of GPU; those of the first are taken for all";
            remarks.push(Remark::assumed(what, "", &self.name));
        }
        let left_out = self.pieces.iter().filter(|p| p.request.gpus == 0 && !p.is_job).count();
        if request.gpus > 0 && left_out > 0 && !first.is_job {
            let what = "pods without GPUs beside pods with GPUs are left out of the gang";
            remarks.push(Remark::assumed(what, "", &self.name));
        }
        let count = if first.is_job { first.count } else { most_at_once(workers) };
        if count == 0 || f64::from(count) * request.gpus as f64 > GPU_LIMIT {
            return Err(Problem::new(
                "the gang has no pods, or too many GPUs",
                "parallelism",
                &count.to_string(),
            ));
        }
        if request.gpus == 0 && request.cpu_milli == 0 {
            return Err(Problem::new("the pod requests neither GPUs nor CPUs", "", &self.name));
        }
        if !first.is_job && workers.len() > count as usize {
            let what = "pods of the gang ran one after another; its size is how many ran at one time";
            remarks.push(Remark { done: Done::Noted, problem: Problem::new(what, "", &self.name) });
        }
        let shape = Parallelism::rigid(
            count,
            Resources {
                gpu_milli: request.gpus * GPU,
                cpu_milli: request.cpu_milli,
                memory_bytes: request.memory_bytes,
                ..Resources::NONE
            },
        );
        let run = self.run(workers, submitted, repairs, &mut remarks)?;
        let ending = ending(workers);
        let declared = first
            .limit_s
            .filter(|limit| (1..1_000_000_000).contains(limit))
            .map(|limit| Declared { limit: Some(Span::from_secs(limit)), ..Declared::default() });
        let draft = run.draft(shape, ending, remarks);
        Ok(Draft { name: Some(&self.name), tenant: &self.namespace, declared, ..draft })
    }

    /// From the first start on, the time during which any worker ran.
    fn run(
        &self,
        workers: &[&Piece],
        submitted: Time,
        repairs: Repairs,
        remarks: &mut Vec<Remark>,
    ) -> Result<Run, Problem> {
        let mut spans: Vec<(Time, Option<Time>)> =
            workers.iter().filter_map(|piece| Some((piece.started?, piece.ended))).collect();
        spans.sort_unstable();
        let open = spans.iter().filter(|(_, end)| end.is_none()).map(|(start, _)| *start).min();
        let mut length = Span::ZERO;
        let mut until = Time::ZERO;
        for (start, end) in &spans {
            let end = end.or(open).unwrap_or(*start).min(open.unwrap_or(Time(u64::MAX)));
            let from = (*start).max(until);
            length += end.since(from.min(end));
            until = until.max(end);
        }
        let ended = workers.iter().filter_map(|piece| piece.ended).max();
        if open.is_none() && length == Span::ZERO {
            let (start, end) = (spans.first().map_or(Time::ZERO, |span| span.0), ended.unwrap_or_default());
            length = repairs.length(start, end.min(start), ("the end", &self.name), remarks)?;
        }
        Ok(Run { submitted, ended, length, running_since: open })
    }
}

/// How many of the pods ran at one time at the most.
fn most_at_once(workers: &[&Piece]) -> u32 {
    let mut changes: Vec<(Time, i32)> = Vec::new();
    for piece in workers {
        let Some(start) = piece.started else { continue };
        changes.push((start, 1));
        changes.push((piece.ended.map_or(Time(u64::MAX), |end| end.max(start + Span(1))), -1));
    }
    changes.sort_unstable();
    let mut now = 0;
    changes
        .into_iter()
        .map(|(_, change)| {
            now += change;
            now
        })
        .max()
        .unwrap_or(0) as u32
}

/// A gang goes on while a pod runs, and ends as its last pod did.
fn ending(workers: &[&Piece]) -> Ending {
    if workers.iter().any(|piece| piece.ended.is_none()) {
        return Ending::Censored;
    }
    workers
        .iter()
        .max_by_key(|piece| (piece.ended, piece.ending == Ending::Failed))
        .map_or(Ending::Completed, |piece| piece.ending)
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{GpuTypeId, GpuTypeSet};

    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::Workload;

    /// A pod of a minute's steps: submitted, started and ended at these minutes.
    fn pod(
        name: &str,
        owner: Option<(&str, &str)>,
        request: &str,
        times: (u8, Option<u8>, Option<u8>),
    ) -> String {
        let at = |minute: u8| format!("\"2024-05-01T08:{minute:02}:00Z\"");
        let owner = owner.map_or_else(String::new, |(kind, uid)| {
            format!(", \"ownerReferences\": [{{\"kind\": \"{kind}\", \"uid\": \"{uid}\", \"name\": \"gang-{uid}\"}}]")
        });
        let (submitted, started, ended) = times;
        let started = started.map(at);
        let (phase, state) = match (started, ended) {
            (None, _) => ("Pending", String::new()),
            (Some(start), None) => {
                ("Running", format!("{{\"state\": {{\"running\": {{\"startedAt\": {start}}}}}}}"))
            }
            (Some(start), Some(end)) => (
                "Succeeded",
                format!(
                    "{{\"state\": {{\"terminated\": {{\"startedAt\": {start}, \"finishedAt\": {}}}}}}}",
                    at(end)
                ),
            ),
        };
        format!(
            "{{\"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\", \"namespace\": \"ml\", \"uid\": \"u-{name}\",\n\
             \"creationTimestamp\": {}{owner}}},\n\
             \"spec\": {{\"containers\": [{{\"resources\": {{\"requests\": {request}}}}}], \"nodeSelector\": \
             {{\"nvidia.com/gpu.product\": \"A100\"}}}},\n\
             \"status\": {{\"phase\": \"{phase}\", \"containerStatuses\": [{state}]}}}}",
            at(submitted)
        )
    }

    const JOB: &str = r#"{"kind": "Job", "metadata": {"name": "train", "namespace": "ml", "uid": "J",
        "creationTimestamp": "2024-05-01T08:00:00Z"},
        "spec": {"parallelism": 4, "activeDeadlineSeconds": 7200, "template": {"spec": {"containers": [
            {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "500m", "memory": "2Gi"}}},
            {"resources": {"requests": {"cpu": 1}}}]}}},
        "status": {"startTime": "2024-05-01T08:01:00Z", "conditions": [
            {"type": "Failed", "status": "True", "lastTransitionTime": "2024-05-01T08:11:00Z"}]}}"#;
    const GPU_AND_CPU: &str = r#"{"nvidia.com/gpu": 1, "cpu": "4"}"#;
    const CPU: &str = r#"{"cpu": "250m"}"#;

    fn list(items: &[String]) -> Workload {
        let text = format!(
            "{{\n\"apiVersion\": \"v1\", \"items\": [\n{}],\n\"kind\": \"List\"}}\n",
            items.join(",\n")
        );
        read_from("pods.json", text.as_bytes(), &Options::default()).unwrap()
    }

    fn told(workload: &Workload, what: &str) -> (Done, u64) {
        let found = workload.report.findings.iter().find(|finding| finding.what.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {:?}", workload.report.findings));
        (found.done, found.count)
    }

    #[test]
    fn a_batch_job_is_a_gang_and_its_pods_are_passed_over() {
        let read = list(&[
            pod("train-1", Some(("Job", "J")), GPU_AND_CPU, (1, Some(2), Some(3))),
            JOB.to_owned(),
            pod("train-2", Some(("Job", "J")), GPU_AND_CPU, (1, Some(2), Some(3))),
        ]);
        assert_eq!((read.report.rows, read.report.kept), (3, 1));
        let (job, truth) = &read.jobs[0];
        assert_eq!((&*job.name, truth.iterations, truth.ending), ("ml/train", 600.0, Ending::Failed));
        let worker = Resources { cpu_milli: 1500, memory_bytes: 2 << 30, ..Resources::gpus(8) };
        assert_eq!(job.shape, Parallelism::rigid(4, worker));
        assert_eq!(job.declared.limit, Some(Span::from_secs(7200)));
        assert_eq!(told(&read, "part of a job"), (Done::Noted, 2));
        assert_eq!(read.report.first_arrival.as_deref(), Some("2024-05-01T08:00:00+00:00[UTC]"));
    }

    #[test]
    fn pods_of_one_owner_are_a_gang_as_large_as_ran_at_one_time() {
        let owner = Some(("PyTorchJob", "P"));
        let read = list(&[
            pod("p-0", owner, GPU_AND_CPU, (0, Some(1), Some(9))),
            pod("p-1", owner, GPU_AND_CPU, (0, Some(1), Some(4))),
            // Replaces p-1.
            pod("p-2", owner, GPU_AND_CPU, (4, Some(5), Some(9))),
            pod("launcher", owner, CPU, (0, Some(1), Some(9))),
            pod("alone", None, CPU, (2, Some(3), Some(4))),
            pod("web-1", Some(("ReplicaSet", "R")), CPU, (2, Some(2), None)),
            pod("web-2", Some(("ReplicaSet", "R")), CPU, (2, Some(2), None)),
            pod("waits", None, GPU_AND_CPU, (7, None, None)),
        ]);
        let jobs: Vec<(&str, f64, Ending)> =
            read.jobs.iter().map(|(job, truth)| (&*job.name, truth.iterations, truth.ending)).collect();
        let expected = [
            ("ml/gang-P", 480.0, Ending::Completed),
            ("ml/alone", 60.0, Ending::Completed),
            ("ml/web-1", 420.0, Ending::Censored),
            ("ml/web-2", 420.0, Ending::Censored),
        ];
        assert_eq!(jobs, expected);
        let worker = Resources { cpu_milli: 4000, ..Resources::gpus(1) };
        assert_eq!(read.jobs[0].0.shape, Parallelism::rigid(2, worker));
        assert_eq!(read.jobs[0].0.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0)]));
        assert_eq!((&*read.gpu_types[0], read.report.rows), ("a100", 8));
        assert_eq!(told(&read, "never began"), (Done::Dropped, 1));
        assert_eq!(told(&read, "one after another"), (Done::Noted, 1));
        assert_eq!(told(&read, "left out of the gang"), (Done::Assumed, 1));
        assert_eq!(told(&read, "still running"), (Done::Noted, 2));
    }

    #[test]
    fn what_is_no_pod_is_left_out_with_its_line() {
        let read = list(&[
            pod("good", None, CPU, (2, Some(3), Some(4))),
            "{\"kind\": \"Secret\"}".to_owned(),
            pod("odd", None, "{\"cpu\": \"two\"}", (2, Some(3), Some(4))),
            pod("back", None, CPU, (2, Some(4), Some(3))),
        ]);
        assert_eq!((read.report.rows, read.report.kept), (4, 1));
        assert_eq!(told(&read, "no pod and no job"), (Done::Dropped, 1));
        assert_eq!(told(&read, "the request for cpu"), (Done::Dropped, 1));
        assert_eq!(told(&read, "the end is before the start"), (Done::Dropped, 1));
        let odd = read.report.findings.iter().find(|f| f.what.contains("no pod")).unwrap();
        assert!(odd.examples[0].starts_with("pods.json:7"), "{odd:?}");
    }
}
