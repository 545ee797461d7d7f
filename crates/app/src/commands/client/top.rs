//! `top`: nodes and jobs at a glance, once or renewed every second on the whole screen.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::{cursor, execute, queue, style, terminal};
use serde::Serialize;

use super::connection::{Connection, Place};
use super::jobs::jobs_text;
use super::operate::nodes_text;
use crate::commands::{Ending, Output, print};
use crate::failure::Failure;
use crate::web::{JobPage, JobShown, NodeList, NodeShown, PolicyShown};

/// How often the screen is renewed.
const EVERY: Duration = Duration::from_secs(1);
/// Cells of a bar.
const BAR: usize = 30;

/// What `top` is told.
#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    /// Print it once and end; this is also what happens where there is no terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    place: Place,
}

/// Everything at one moment.
#[derive(Serialize)]
struct Glance {
    policy: PolicyShown,
    nodes: Vec<NodeShown>,
    /// Jobs that are not over.
    jobs: Vec<JobShown>,
}

/// Shows it.
pub(crate) fn top(given: &TopArguments, output: Output) -> Result<Ending, Failure> {
    let connection = given.place.connect()?;
    if given.once || output == Output::Json || !std::io::stdout().is_terminal() {
        print(output, &glance(&connection)?, glance_text)?;
        return Ok(Ending::Done);
    }
    let screen = Screen::take().map_err(Failure::Output)?;
    let ended = show(&connection);
    drop(screen);
    ended.map(|()| Ending::Done)
}

fn glance(connection: &Connection) -> Result<Glance, Failure> {
    let NodeList { nodes, .. } = connection.get("/v1/nodes")?;
    let JobPage { jobs, .. } = connection.get("/v1/jobs?state=active&limit=1000")?;
    Ok(Glance { policy: connection.get("/v1/policy")?, nodes, jobs })
}

fn glance_text(glance: &Glance) -> String {
    let Glance { policy, nodes, jobs } = glance;
    let waiting = jobs.iter().filter(|job| job.state == "waiting").count();
    let mut text = format!("policy {}: {} jobs run, {waiting} wait\n", policy.name, jobs.len() - waiting);
    let sum = |of: fn(&NodeShown) -> f64| nodes.iter().map(of).sum::<f64>();
    for (what, used, all) in [
        ("GPUs", sum(|node| node.gpus_used), sum(|node| node.gpus)),
        ("CPUs", sum(|node| node.cpus_used), sum(|node| node.cpus.unwrap_or(0.0))),
    ] {
        if all > 0.0 {
            let full = ((used / all).clamp(0.0, 1.0) * BAR as f64).round() as usize;
            let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR - full));
            let _ = writeln!(text, "{what} [{bar}] {used:.2} of {all} in use");
        }
    }
    let _ = write!(text, "\n{}\n\n{}\n", nodes_text(nodes), jobs_text(jobs));
    text
}

/// Shows it until somebody presses `q`, Escape or Control-C.
fn show(connection: &Connection) -> Result<(), Failure> {
    loop {
        let text = glance_text(&glance(connection)?);
        draw(&text).map_err(Failure::Output)?;
        if poll(EVERY).map_err(Failure::Output)?
            && let Event::Key(key) = read().map_err(Failure::Output)?
        {
            let leaves = match key.code {
                KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
                KeyCode::Char('q') | KeyCode::Esc => true,
                _ => false,
            };
            if leaves && key.kind == KeyEventKind::Press {
                return Ok(());
            }
        }
    }
}

fn draw(text: &str) -> std::io::Result<()> {
    let (columns, rows) = terminal::size()?;
    let mut stdout = std::io::stdout().lock();
    queue!(stdout, cursor::MoveTo(0, 0), terminal::Clear(terminal::ClearType::All))?;
    let last = usize::from(rows).saturating_sub(1);
    for (row, line) in text.lines().take(last).enumerate() {
        let line: String = line.chars().take(usize::from(columns)).collect();
        queue!(stdout, cursor::MoveTo(0, row as u16), style::Print(line))?;
    }
    queue!(stdout, cursor::MoveTo(0, last as u16), style::Print("q ends"))?;
    stdout.flush()
}

/// The whole screen, given back when dropped.
struct Screen;

impl Screen {
    fn take() -> std::io::Result<Self> {
        terminal::enable_raw_mode()?;
        let screen = Self;
        execute!(std::io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}
