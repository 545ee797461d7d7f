//! A log of the size of Helios's whole job log, for the measurements.

use std::io::{Read, Write as _};

/// Jobs of the whole Helios log.
pub(crate) const HELIOS_JOBS: u32 = 3_362_981;

/// A log like Helios's, made while it is read, so that it takes no memory itself.
pub(crate) struct HeliosLog {
    next: u32,
    line: Vec<u8>,
    read: usize,
}

impl HeliosLog {
    /// The beginning of the log.
    pub(crate) fn new() -> Self {
        let line =
            b"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
        Self { next: 0, line: line.to_vec(), read: 0 }
    }

    fn make(&mut self) {
        let i = self.next;
        self.next += 1;
        self.line.clear();
        self.read = 0;
        // Half of the jobs have no GPU; they arrive every four seconds over six months.
        let (gpus, cpus, state) = (if i.is_multiple_of(2) { 0 } else { 1 << (i % 4) }, 1 + i % 48, i % 11);
        let state = if state < 7 { "COMPLETED" } else { "CANCELLED" };
        let at = |seconds: u32| {
            let (day, rest) = (seconds / 86_400, seconds % 86_400);
            let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
            format!("2020-{:02}-{:02} {hour:02}:{minute:02}:{second:02}", 3 + day / 28, 1 + day % 28)
        };
        let (submitted, ran) = (i * 4, 1 + i % 3600);
        let (user, vc) = (i % 1000, i % 30);
        let (submit, start, end) = (at(submitted), at(submitted + 1), at(submitted + 1 + ran));
        let _ = writeln!(
            self.line,
            "{},u{user:04},vc{vc:03},{gpus},{cpus},1,{state},{submit},{start},{end},{ran},1",
            1_000_000 + i
        );
    }
}

impl Read for HeliosLog {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.read == self.line.len() {
                if self.next == HELIOS_JOBS {
                    break;
                }
                self.make();
            }
            let count = (self.line.len() - self.read).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.line[self.read..self.read + count]);
            self.read += count;
            filled += count;
        }
        Ok(filled)
    }
}
