//! The one binary: it parses, calls and renders. It decides nothing about scheduling.

mod commands;
mod config;
mod demo;
mod experiment;
mod failure;
mod fidelity;
mod inquiry;
mod render;
mod reproduce;
mod statistics;
mod web;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    match commands::perform(arguments) {
        Ok(ending) => ending.into(),
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.explain());
            ExitCode::from(failure.exit_code())
        }
    }
}
