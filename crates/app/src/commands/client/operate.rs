//! What operators do: `nodes`, `drain`, `undrain`, `policy` and `token`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::connection::{Connection, Place, escaped};
use crate::commands::{Ending, Output, print};
use crate::config::parse_policy;
use crate::failure::Failure;
use crate::render::{Align, plain_table};
use crate::web::{Draining, NewToken, NodeList, NodeShown, PolicyShown, TokenList};

/// What `nodes` is told.
#[derive(Args, Debug)]
pub(crate) struct NodesArguments {
    #[command(flatten)]
    place: Place,
}

/// What `drain` and `undrain` are told.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["node", "new_jobs"]))]
pub(crate) struct DrainArguments {
    /// The node.
    node: Option<String>,
    /// The taking of new jobs, in place of a node.
    #[arg(long)]
    new_jobs: bool,
    #[command(flatten)]
    place: Place,
}

/// What is done with the policy.
#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Show who decides.
    Show {
        #[command(flatten)]
        place: Place,
    },
    /// Let another policy decide from now on.
    Set {
        /// The policy: a name, or `name{key = value, ...}`; `mlf-c(NAME)` puts load control around any.
        policy: String,
        #[command(flatten)]
        place: Place,
    },
}

/// What is done with tokens.
#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown once.
    Make {
        /// What it is for: admin, user or viewer.
        #[arg(long, default_value = "user")]
        role: String,
        /// Whose it is; a user's must be somebody's.
        #[arg(long)]
        for_tenant: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// List the tokens, without what they are.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Take a token back.
    Revoke {
        /// Its id, as `list` shows it.
        id: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Lists the nodes.
pub(crate) fn nodes(given: &NodesArguments, output: Output) -> Result<Ending, Failure> {
    let NodeList { nodes, .. } = given.place.connect()?.get("/v1/nodes")?;
    print(output, &nodes, |nodes| nodes_text(nodes))?;
    Ok(Ending::Done)
}

/// Nodes as a table.
pub(super) fn nodes_text(nodes: &[NodeShown]) -> String {
    let headers = [
        ("node", Align::Left),
        ("state", Align::Left),
        ("type", Align::Left),
        ("GPUs", Align::Right),
        ("used", Align::Right),
        ("CPUs", Align::Right),
        ("used", Align::Right),
        ("jobs", Align::Left),
    ];
    let rows = nodes.iter().map(|node| {
        let jobs: Vec<String> = node.jobs.iter().map(u32::to_string).collect();
        vec![
            node.name.clone(),
            node.state.clone(),
            node.gpu_type.clone().unwrap_or_else(|| "-".to_owned()),
            node.gpus.to_string(),
            node.gpus_used.to_string(),
            node.cpus.map_or_else(|| "-".to_owned(), |cpus| cpus.to_string()),
            node.cpus_used.to_string(),
            if jobs.is_empty() { "-".to_owned() } else { jobs.join(",") },
        ]
    });
    plain_table(&headers, rows.collect())
}

/// Drains a node, or the whole cluster.
pub(crate) fn drain(given: &DrainArguments, output: Output) -> Result<Ending, Failure> {
    change(given, "draining", Connection::post_nothing, output)
}

/// Lets it take work again.
pub(crate) fn undrain(given: &DrainArguments, output: Output) -> Result<Ending, Failure> {
    change(given, "up", Connection::delete, output)
}

fn change(
    given: &DrainArguments,
    state: &str,
    all: impl Fn(&Connection, &str) -> Result<Draining, Failure>,
    output: Output,
) -> Result<Ending, Failure> {
    let connection = given.place.connect()?;
    match &given.node {
        Some(name) => {
            let path = format!("/v1/nodes/{}", escaped(name));
            let node: NodeShown = connection.post(&path, &json!({ "state": state }), None)?;
            print(output, &node, |node| nodes_text(std::slice::from_ref(node)))?;
        }
        None => print(output, &all(&connection, "/v1/drain")?, |all| {
            if all.draining { "no new jobs are taken" } else { "new jobs are taken" }.to_owned()
        })?,
    }
    Ok(Ending::Done)
}

/// Shows or changes who decides.
pub(crate) fn policy(command: &PolicyCommand, output: Output) -> Result<Ending, Failure> {
    let shown: PolicyShown = match command {
        PolicyCommand::Show { place } => place.connect()?.get("/v1/policy")?,
        PolicyCommand::Set { policy, place } => {
            let chosen = parse_policy(policy)?;
            let chosen = PolicyShown { name: chosen.name().to_owned(), parameters: chosen.given().clone() };
            place.connect()?.put("/v1/policy", &chosen)?
        }
    };
    print(output, &shown, |shown| {
        let parameters = shown.parameters.iter().map(|(key, value)| format!("\n  {key} = {value}"));
        shown.name.clone() + &parameters.collect::<String>()
    })?;
    Ok(Ending::Done)
}

/// Makes, lists or takes back tokens.
pub(crate) fn token(command: &TokenCommand, output: Output) -> Result<Ending, Failure> {
    match command {
        TokenCommand::Make { role, for_tenant, place } => {
            let request = json!({ "role": role, "tenant": for_tenant });
            let made: NewToken = place.connect()?.post("/v1/tokens", &request, None)?;
            print(output, &made, |made| made.token.clone())?;
        }
        TokenCommand::List { place } => {
            let TokenList { tokens } = place.connect()?.get("/v1/tokens")?;
            let headers = [("id", Align::Left), ("role", Align::Left), ("tenant", Align::Left)];
            print(output, &tokens, |tokens| {
                let rows = tokens.iter().map(|kept| {
                    let role = json!(kept.role);
                    let role = role.as_str().unwrap_or_default().to_owned();
                    vec![kept.id.clone(), role, kept.tenant.clone().unwrap_or_else(|| "-".to_owned())]
                });
                plain_table(&headers, rows.collect())
            })?;
        }
        TokenCommand::Revoke { id, place } => {
            let _: Value = place.connect()?.delete(&format!("/v1/tokens/{}", escaped(id)))?;
        }
    }
    Ok(Ending::Done)
}
