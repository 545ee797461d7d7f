//! What `kubectl get pods,jobs -A -o json` prints: one JSON object with a list of pods and jobs under `items`.
//!
//! Source: the API reference of Kubernetes (core/v1 Pod, batch/v1 Job). How they become jobs:
//! - A batch job is a gang of `parallelism` pods, from `startTime` to `completionTime` or to its failure. Pods of a job
//!   that is in the list are passed over.
//! - Other pods with one owner (a `PyTorchJob`, say) are one gang. Its size is how many of them ran at one time at the
//!   most, its length the time during which any ran; so a pod that replaces another is no second worker. Pods of
//!   replica sets and daemon sets each stand for themselves.
//! - In a gang the largest request counts for all pods; pods without GPUs beside pods with GPUs are left out of it.
//! - A pod is one worker with all its GPUs, on one node. The type of GPU is that of the node selector or of the
//!   required node affinity.
//! - What never started is left out; what has no end was still running when the list was made. The list does not say
//!   when that was, so it is the last moment that it tells of.
//!
//! The list is read as a stream; some hundred bytes of each pod are kept until its end, because pods
//! of one gang stand anywhere.

mod gang;
mod objects;

use std::collections::BTreeMap;

use super::elements::{Elements, Place};
use super::error::TraceError;
use super::fields::{Problem, Remark};
use super::import::Import;
use super::lines::Lines;
use super::logged::is_open;
use super::wall::Clock;
use super::{Column, Format};
use crate::truth::Ending;
use gang::{Gang, Piece};
use objects::{Object, Status};

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "kubernetes",
    title: "pods and jobs as kubectl get -o json prints them",
    columns: &[
        Column {
            name: "metadata",
            meaning: "name and namespace are the id, the namespace the tenant; owners join pods",
        },
        Column {
            name: "spec",
            meaning: "what the containers request; GPU type by node selector or affinity; `parallelism`",
        },
        Column { name: "status", meaning: "when it started and ended, and how" },
    ],
    detect: |head| {
        let has = |key: &str| head.text.contains(key);
        head.line.trim_start().starts_with('{') && has("\"apiVersion\"") && has("\"items\"")
    },
    read,
};

/// Owners whose pods have nothing to do with each other.
const LOOSE_OWNERS: [&str; 2] = ["ReplicaSet", "DaemonSet"];

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let clock = import.clock_with_zones()?;
    let mut gangs: BTreeMap<String, Gang> = BTreeMap::new();
    let mut elements = Elements::of(Place::Key("items"));
    while let Some(line) = elements.next(lines)? {
        let object = serde_json::from_slice::<Object>(line.bytes)
            .map_err(|error| Problem::new("the element is no pod and no job", "", &error.to_string()));
        let piece = object.and_then(|object| {
            let piece = piece(&object, line.number, &clock)?;
            Ok((key(&object), name(&object), object.metadata.namespace, piece))
        });
        match piece {
            Err(problem) => import.row(line.number, line.bytes, Err(problem)),
            Ok((key, name, namespace, piece)) => {
                gangs.entry(key).or_insert_with(|| Gang::new(namespace)).add(name, piece);
            }
        }
    }
    // In the order of the list, so that jobs that arrive together keep it.
    let mut gangs: Vec<Gang> = gangs.into_values().collect();
    gangs.sort_by_key(Gang::line);
    for gang in &gangs {
        gang.hand_over(import)?;
    }
    Ok(())
}

/// What joins objects: the owner of a pod, or the object itself.
fn key(object: &Object) -> String {
    let own = &object.metadata;
    match joining_owner(object) {
        Some(owner) => owner.uid.clone(),
        None if own.uid.is_empty() => format!("{}/{}", own.namespace, own.name),
        None => own.uid.clone(),
    }
}

fn name(object: &Object) -> String {
    let own = joining_owner(object).map_or(&object.metadata.name, |owner| &owner.name);
    format!("{}/{own}", object.metadata.namespace)
}

fn joining_owner(object: &Object) -> Option<&objects::Owner> {
    if object.spec.template.is_some() {
        return None;
    }
    object.metadata.owner_references.iter().find(|owner| !LOOSE_OWNERS.contains(&owner.kind.as_str()))
}

fn piece(object: &Object, line: u64, clock: &Clock) -> Result<Piece, Problem> {
    let mut remarks = Vec::new();
    let time = |field: &str, text: Option<&String>, remarks: &mut Vec<Remark>| {
        let known = text.filter(|text| !is_open(text));
        known.map(|text| clock.read(field, text, remarks)).transpose()
    };
    let created = object.metadata.creation_timestamp.as_ref();
    let submitted = time("creationTimestamp", created, &mut remarks)?
        .ok_or_else(|| Problem::new("creationTimestamp is missing", "creationTimestamp", "(empty)"))?;
    let status = &object.status;
    let (pod, is_job) = match &object.spec.template {
        Some(template) => (&*template.spec, true),
        None => (&object.spec, false),
    };
    let request = pod.request().map_err(|(field, value)| {
        Problem::new(format!("the request for {field} is no amount that is read"), field, &value)
    })?;
    let (start, end, ending) = if is_job { of_job(status) } else { of_pod(status)? };
    Ok(Piece {
        line,
        is_job,
        count: object.spec.parallelism.unwrap_or(1),
        request,
        gpu_types: pod.gpu_types(),
        submitted,
        started: time("startTime", start, &mut remarks)?,
        ended: time("the end", end, &mut remarks)?,
        ending,
        limit_s: object.spec.active_deadline_seconds,
        remarks,
    })
}

/// When a batch job started and ended, and how.
fn of_job(status: &Status) -> (Option<&String>, Option<&String>, Ending) {
    let holds = |kind: &str| status.conditions.iter().find(|c| c.kind == kind && c.status == "True");
    let start = status.start_time.as_ref();
    match (holds("Failed"), status.completion_time.as_ref()) {
        (Some(failed), _) => (start, failed.last_transition_time.as_ref(), Ending::Failed),
        (None, end) => (start, end, Ending::Completed),
    }
}

/// When a pod started and ended, and how.
fn of_pod(status: &Status) -> Result<(Option<&String>, Option<&String>, Ending), Problem> {
    let states = || status.container_statuses.iter().map(|container| &container.state);
    let ran = || states().filter_map(|state| state.terminated.as_ref().or(state.running.as_ref()));
    // Texts of one form and one zone sort like the times they stand for.
    let first = ran().filter_map(|ran| ran.started_at.as_ref()).min();
    let last = states().filter_map(|state| state.terminated.as_ref()?.finished_at.as_ref()).max();
    let start = first.or(status.start_time.as_ref());
    match status.phase.as_str() {
        "Pending" => Ok((None, None, Ending::Censored)),
        "Running" | "Unknown" => Ok((start, None, Ending::Censored)),
        "Succeeded" | "Failed" if last.is_none() && start.is_some() => {
            Err(Problem::new("the pod is over, and no container says when", "phase", &status.phase))
        }
        "Succeeded" => Ok((start, last, Ending::Completed)),
        "Failed" => Ok((start, last, Ending::Failed)),
        _ => Err(Problem::new("the phase of the pod is unknown", "phase", &status.phase)),
    }
}
