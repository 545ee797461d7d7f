//! Files that are known and hold something else than what was asked for: told by content, with what they are, why
//! they are refused, and what to do. Reads none of them.

use std::fmt;

use crate::trace::header_has;
use crate::{capacity, cluster, trace};

/// What a file was given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A list of jobs.
    Jobs,
    /// Machines.
    Cluster,
    /// How much there is over time.
    Capacity,
}

/// What a file is that was taken for something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// What it is.
    pub what: String,
    /// Why it cannot be what it was given as.
    pub why: &'static str,
    /// What to do.
    pub instead: &'static str,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}: {}; {}", self.what, self.why, self.instead)
    }
}

/// A kind of file that is never read.
struct Known {
    what: &'static str,
    why: &'static str,
    instead: &'static str,
    is: fn(&str) -> bool,
}

impl Known {
    fn stranger(&self) -> Stranger {
        Stranger { what: self.what.to_owned(), why: self.why, instead: self.instead }
    }
}

const A_TRACE: &str = "give a list of training jobs as --trace";
const ITS_TRACE: &str = "give the trace that the run was made from";
const REQUEST: &str = "a request lasts seconds and has neither a length nor GPUs of its own";
const PROFILE: &str = "it says how fast a model is, and names no jobs";
const RESULT: &str = "it says what became of jobs in a run of a scheduler";

/// All kinds. A rule must not fit any list of jobs, nodes or capacity that is read.
const KNOWN: &[Known] = &[
    Known {
        what: "a list of inference requests (Azure's LLM services)",
        why: REQUEST,
        instead: A_TRACE,
        is: |head| columns(head, &["TIMESTAMP", "ContextTokens", "GeneratedTokens"]),
    },
    Known {
        what: "a list of image-generation requests (Alibaba 2026)",
        why: REQUEST,
        instead: A_TRACE,
        is: |head| columns(head, &["gmt_create", "predict_type", "exec_time_seconds"]),
    },
    Known {
        what: "a table of measured throughputs (Gavel, Shockwave)",
        why: PROFILE,
        instead: "give a .trace file of Gavel's as --trace; its reader has such a table built in",
        is: |head| {
            let head = squeezed(head);
            head.starts_with("{\"")
                && head.split('{').nth(3).is_some_and(|rest| rest.starts_with("\"null\":"))
        },
    },
    Known {
        what: "a table of measured throughputs (our own)",
        why: PROFILE,
        instead: A_TRACE,
        is: |head| {
            columns(head, &["model", "gpus"])
                && !columns(head, &["duration_s"])
                && first_line(head).contains("_unconsolidated")
        },
    },
    Known {
        what: "a speed profile of one model (Sia, Pollux)",
        why: PROFILE,
        instead: "give a file of Sia's folder `workloads` as --trace",
        is: |head| columns(head, &["local_bsz", "step_time", "sync_time"]),
    },
    Known {
        what: "a training curve of one model (Sia, Pollux)",
        why: PROFILE,
        instead: "give a file of Sia's folder `workloads` as --trace",
        is: |head| columns(head, &["progress", "iteration", "metric"]),
    },
    Known {
        what: "a speed profile of one model (Rubick)",
        why: PROFILE,
        instead: "give a file of Rubick's folder `workloads` as --trace",
        is: |head| columns(head, &["exec_plan", "placement", "iter_time"]),
    },
    Known {
        what: "measurements of training time, power or accuracy (Zeus)",
        why: PROFILE,
        instead: A_TRACE,
        is: |head| columns(head, &["dataset", "network", "batch_size", "optimizer"]),
    },
    Known {
        what: "measured training speeds (DL2)",
        why: PROFILE,
        instead: A_TRACE,
        is: |head| first_line(head).starts_with("('") && first_line(head).contains("_sync'"),
    },
    Known {
        what: "jobs of DL2's simulator",
        why: "they arrive in slots and last so many epochs, and their GPUs and run times come only from its speed model",
        instead: A_TRACE,
        is: |head| columns(head, &["job_id", "arrival_ts", "num_epochs_real"]),
    },
    Known {
        what: "the job table or the instance table of PAI (Alibaba 2020)",
        why: "it does not say what the jobs ask for",
        instead: "give pai_task_table.csv as --trace",
        is: |head| {
            let fields: Vec<&str> = first_line(head).split(',').map(str::trim).collect();
            let status = match fields.len() {
                6 => fields[3],
                9 => fields[5],
                _ => return false,
            };
            let is_header = status == "status" && fields[0] == "job_name";
            is_header || matches!(status, "Terminated" | "Failed" | "Running" | "Waiting")
        },
    },
    Known {
        what: "iteration times of one job (Alibaba 2020)",
        why: "a row is one iteration of one worker and not a job",
        instead: A_TRACE,
        is: |head| columns(head, &["worker", "batch_time_norm"]),
    },
    Known {
        what: "the log of one training run",
        why: "a row is one iteration and not a job",
        instead: A_TRACE,
        is: |head| {
            let first = first_line(head);
            first.contains("\"iteration\":") && first.contains("\"elapsed_time_per_iteration\":")
        },
    },
    Known {
        what: "a log of how busy GPUs were (Philly)",
        why: "a row is one machine in one minute and not a job",
        instead: "give Philly's cluster_job_log as --trace and its cluster_machine_list as --cluster",
        is: |head| columns(head, &["time", "machineId", "gpu0_util"]),
    },
    Known {
        what: "a log of how many jobs and GPUs were busy in a virtual cluster (Helios)",
        why: "a row is one minute and not a job",
        instead: "give cluster_log.csv as --trace, or the daily GPU numbers as --capacity",
        is: |head| columns(head, &["time", "total_job_num", "running_job_num"]),
    },
    Known {
        what: "a summary of clusters (Helios, Acme)",
        why: "a row is a whole cluster with counts and means; there are no jobs and no nodes in it",
        instead: "give the job list as --trace, and write the cluster in words, such as --cluster 127x8:v100",
        is: |head| columns(head, &["id", "job_num", "cpu_job_num", "gpu_job_num"]),
    },
    Known {
        what: "a sample of run times and sizes",
        why: "nothing says when the jobs arrive",
        instead: A_TRACE,
        is: |head| header_is(head, &["duration_s", "num_gpus"]) || header_is(head, &["duration"]),
    },
    Known {
        what: "the results of a run, job by job",
        why: RESULT,
        instead: ITS_TRACE,
        is: |head| {
            let jct = |name: &str| matches!(name.trim(), "JCT" | "jct" | "jct_s" | "jct_ts");
            first_line(head).split(',').any(jct)
        },
    },
    Known {
        what: "a table of results of several runs",
        why: "a row is a run of a scheduler and not a job",
        instead: ITS_TRACE,
        is: |head| columns(head, &["policy"]) && first_line(head).contains("avg_jct"),
    },
    Known {
        what: "one problem that a scheduler was to solve (Gavel)",
        why: "it is the state of a cluster at one moment: nothing says when the jobs arrive",
        instead: ITS_TRACE,
        is: |head| squeezed(head).starts_with("{\"num_jobs\":"),
    },
    Known {
        what: "the allocation that a scheduler gave (Gavel)",
        why: RESULT,
        instead: ITS_TRACE,
        is: |head| header_is(head, &["job_id", "v100", "p100", "k80"]),
    },
    Known {
        what: "how long a scheduler took to solve problems (Gavel)",
        why: RESULT,
        instead: ITS_TRACE,
        is: |head| columns(head, &["n", "seed", "policy", "cpu_s", "sum_eff_throughput"]),
    },
    Known {
        what: "the settings of a scheduler (Shockwave)",
        why: "it names neither jobs nor machines",
        instead: A_TRACE,
        is: |head| squeezed(head).starts_with("{\"future_rounds\":"),
    },
    Known {
        what: "a web page",
        why: "a download probably went wrong",
        instead: "download the file itself (on GitHub: the raw file)",
        is: |head| {
            let head: String = head.trim_start().chars().take(15).collect::<String>().to_lowercase();
            head.starts_with("<!doctype html") || head.starts_with("<html")
        },
    },
    Known {
        what: "a pointer of Git LFS",
        why: "the data themselves were not downloaded",
        instead: "fetch them with `git lfs pull`",
        is: |head| head.starts_with("version https://git-lfs.github.com/spec/"),
    },
];

/// What a text that begins like this is, if it is not what was asked for.
pub(crate) fn recognise(head: &str, asked: Asked) -> Option<Stranger> {
    let known = || KNOWN.iter().find(|known| (known.is)(head)).map(Known::stranger);
    let machines = (asked != Asked::Cluster).then(|| machines(head)).flatten();
    let series = || (asked != Asked::Capacity).then(|| series(head)).flatten();
    let jobs = || (asked != Asked::Jobs).then(|| jobs(head)).flatten();
    // Any JSON object may be meant as a job of ours, and so it counts for one last; any other list of jobs counts
    // first, because results of runs are read where they say enough of their jobs.
    let is_object = head.trim_start().starts_with('{');
    let rest = || if is_object { known().or_else(jobs) } else { jobs().or_else(known) };
    machines.or_else(series).or_else(rest)
}

/// A list of jobs.
fn jobs(head: &str) -> Option<Stranger> {
    trace::recognise(head).map(|format| Stranger {
        what: format!("a list of jobs ({})", format.title),
        why: "it says what is to run and not on which machines",
        instead: "give it as --trace",
    })
}

/// A description of machines.
fn machines(head: &str) -> Option<Stranger> {
    let public = cluster::recognise(head).map(|format| format.title);
    let own = || head.lines().any(|line| line.trim() == "[[nodes]]").then_some("our own format, TOML");
    public.or_else(own).map(|title| Stranger {
        what: format!("a description of machines ({title})"),
        why: "it says what there is to run on and nothing else",
        instead: "give it as --cluster",
    })
}

/// A series of capacity.
fn series(head: &str) -> Option<Stranger> {
    capacity::recognise(head).map(|format| Stranger {
        what: format!("how much capacity there is over time ({})", format.title),
        why: "it names neither jobs nor machines",
        instead: "give it as --capacity",
    })
}

/// What bytes that are no text are, if they are known.
pub(crate) fn binary(bytes: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 7] = [
        (b"PAR1", "a Parquet file; export it as CSV"),
        (b"SQLite format 3\0", "an SQLite database; export the table as CSV"),
        (b"%PDF-", "a PDF"),
        (b"\x80\x03", "a Python pickle; export it as CSV"),
        (b"\x80\x04", "a Python pickle; export it as CSV"),
        (b"\x89PNG", "a picture"),
        (b"\x89HDF", "an HDF5 file; export it as CSV"),
    ];
    MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, what)| *what)
}

/// The first line with text.
pub(crate) fn first_line(head: &str) -> &str {
    head.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim()
}

/// Whether the header has these columns.
fn columns(head: &str, names: &[&str]) -> bool {
    header_has(first_line(head), names)
}

/// Whether the header has exactly these columns, in any order.
pub(crate) fn header_is(head: &str, names: &[&str]) -> bool {
    columns(head, names) && first_line(head).split(',').count() == names.len()
}

/// The beginning of a text without blanks, for JSON in any layout.
pub(crate) fn squeezed(head: &str) -> String {
    head.chars().filter(|c| !c.is_whitespace()).take(400).collect()
}

/// The kinds of the objects of Kubernetes that a text names first, lists aside. Text within text is not meant.
pub(crate) fn kinds(head: &str) -> impl Iterator<Item = &str> {
    let after = head.split("\"kind\"").skip(1).filter_map(|rest| {
        let value = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        value.split('"').next()
    });
    after.filter(|kind| *kind != "List")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_fits_what_is_read() {
        for head in [
            "job_id,submit_s,duration_s,gpus\n",
            "timestamp,duration,num_gpus,gpu_time,cluster\n",
            "name,time,application,num_replicas,batch_size\n",
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n",
            "A3C\tpython3\t--max-steps\t1\t1000\t0.5\t1\n",
            "{\"job_id\": \"a\", \"submit_s\": 0}\n",
        ] {
            assert_eq!(recognise(head, Asked::Jobs), None, "{head}");
        }
    }

    #[test]
    fn tables_of_pai_without_demands_are_told_apart() {
        for head in [
            "j1,inst,user,Terminated,4550879.0,4551416.0\n",
            "j1,worker,i1,w1,inst,Failed,2081336.0,2083889.0,machine\n",
            "job_name,inst_id,user,status,start_time,end_time\n",
        ] {
            let told = recognise(head, Asked::Jobs).unwrap().to_string();
            assert!(told.contains("give pai_task_table.csv as --trace"), "{told}");
        }
        assert_eq!(recognise("j1,ps,1.0,Terminated,1.0,2.0,400.0,10.0,0.0,CPU\n", Asked::Jobs), None);
        assert_eq!(recognise("a,b,c,d,e,f\n", Asked::Jobs), None);
    }

    #[test]
    fn misplaced_files_are_sent_to_their_argument() {
        let told = |head: &str, asked| recognise(head, asked).unwrap().to_string();
        let nodes = "sn,cpu_milli,memory_mib,gpu,model\n";
        assert!(told(nodes, Asked::Jobs).contains("give it as --cluster"));
        assert!(told("x = 1\n[[nodes]]\n", Asked::Jobs).contains("give it as --cluster"));
        assert_eq!(recognise(nodes, Asked::Cluster), None);
        let jobs = "timestamp,duration,num_gpus,gpu_time,cluster\n";
        assert!(told(jobs, Asked::Cluster).contains("give it as --trace"));
        let spot = "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [1, 2]}";
        assert!(told(spot, Asked::Cluster).contains("give it as --capacity"));
        assert!(
            told("id,gpu_num,job_num,cpu_job_num,gpu_job_num", Asked::Cluster)
                .contains("--cluster 127x8:v100")
        );
    }

    #[test]
    fn the_kind_within_an_annotation_is_not_meant() {
        let text = r#"{"items": [{"note": "{\"kind\":\"Pod\"}", "kind" : "Node"}], "kind": "List"}"#;
        assert_eq!(kinds(text).collect::<Vec<_>>(), ["Node"]);
    }
}
