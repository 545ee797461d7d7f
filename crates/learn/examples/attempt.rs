//! scratch
use std::time::Instant;
use trainyard_learn::dl2::*;
use trainyard_learn::evaluate;
use trainyard_sched::model::*;
use trainyard_sched::policies;
use trainyard_sched::policies::dl2::{Rules, Schema};
use trainyard_sim::backend::Options;
use trainyard_sim::generate::*;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::Setup;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let get = |k: &str, d: &str| {
        a.iter().find_map(|x| x.strip_prefix(&format!("{k}=")).map(str::to_owned)).unwrap_or(d.to_owned())
    };
    let preset = get("preset", "c96");
    let nodes: u32 = get("nodes", "96").parse().unwrap();
    let p = PRESETS.iter().find(|p| p.name == preset).unwrap();
    let speeds = ServerSpeeds::Strong.functions().unwrap();
    let traces = |i: usize| {
        let jobs = draw_server_jobs(&p.servers.unwrap(), p.jobs, Seed(i as u64));
        Setup {
            cluster: server_cluster(nodes),
            tenants: Tenants::default(),
            workload: server_workload(&jobs, &speeds, "job"),
            physics: Physics::default(),
            options: Options::default(),
            seed: Seed(0),
        }
    };
    let rules = Rules {
        schema: Schema { jobs: get("jobs", "20").parse().unwrap(), kinds: 8 },
        slot_s: 1200.0,
        starts_all: true,
        stops_at_misfit: get("stop", "false") == "true",
        most_choices: 100000,
    };
    let mut other = toml::Table::new();
    other.insert("misfit".into(), (if rules.stops_at_misfit { "stop" } else { "close" }).into());
    other.insert("jobs".into(), (rules.schema.jobs as i64).into());
    let test = 0..get("test", "20").parse().unwrap();
    let show = |name: &str, v: &[f64]| {
        println!("{name:30} {:.3} slots", v.iter().sum::<f64>() / v.len() as f64 / 1200.0)
    };
    if get("base", "1") == "1" {
        for (n, par) in [
            ("slot-drf", "misfit='stop'"),
            ("slot-drf", ""),
            ("optimus", "round_s=1200\nmode='as_coded'"),
            ("optimus", "round_s=1200\nmode='fitted'"),
        ] {
            let t: toml::Table = par.parse().unwrap();
            let v = evaluate::mean_jcts_s(&|| Ok(policies::build(n, &t)?), &traces, test.clone()).unwrap();
            show(&format!("{n} {par}"), &v);
        }
    }
    let updates: usize = get("updates", "2000").parse().unwrap();
    let every: usize = get("every", "500").parse().unwrap();
    let mut practice = Practice { updates, ..Practice::default() };
    practice.rate = get("rate", "1e-4").parse().unwrap();
    practice.critic_rate = get("crate", "1e-4").parse().unwrap();
    practice.normalised = get("norm", "false") == "true";
    practice.longest = get("clip", "0.5").parse().unwrap();
    practice.whole = get("whole", "1.0").parse().unwrap();
    practice.aims.from = get("aims", "0.3").parse().unwrap();
    practice.shuffles = get("shuf", "true") == "true";
    practice.batch = get("batch", "256").parse().unwrap();
    practice.memory = get("memory", "8192").parse().unwrap();
    practice.gamma = get("gamma", "0.9").parse().unwrap();
    practice.entropy =
        Falling { from: get("ent", "0.01").parse().unwrap(), to: get("ent1", "0.001").parse().unwrap() };
    practice.exploring.from = get("eps", "0.4").parse().unwrap();
    practice.clusters = get("clusters", "1").parse().unwrap();
    practice.critic = get("critic", "true") == "true";
    practice.remembers = get("mem", "true") == "true";
    practice.own_reward = get("own", "false") == "true";
    let school = get("school", "200").parse::<usize>().unwrap();
    let course = Course {
        rules,
        hidden: vec![256, 256],
        schooling: (school > 0).then(|| Schooling { updates: school, ..Schooling::default() }),
        practice: (updates > 0).then_some(practice),
        traces: 100,
        seed: Seed(get("seed", "1").parse().unwrap()),
    };
    let begin = Instant::now();
    let teacher: toml::Table = get("tpar", "misfit='stop'").parse().unwrap();
    let tname = get("teacher", "slot-drf");
    let train_traces = |i: usize| traces(1000 + i);
    let eval = |net: &trainyard_learn::network::Network, what: &str| {
        let w = trainyard_sched::nets::Weights {
            schema: rules.schema.name(),
            made: Default::default(),
            policy: net.mlp(),
            value: None,
        };
        let text: toml::Value = w.to_text().into();
        let mut t = other.clone();
        t.insert("weights".into(), text);
        let v = evaluate::mean_jcts_s(&|| Ok(policies::build("dl2", &t)?), &traces, test.clone()).unwrap();
        show(&format!("{:.0}s {what}", begin.elapsed().as_secs_f64()), &v);
    };
    let l = train(&course, &|| Ok(policies::build(&tname, &teacher)?), &train_traces, &mut |told, net| {
        if told.phase == "school" && (told.update == school) {
            println!("{told:?}");
            eval(net, "school");
        }
        if told.phase == "practice" && told.update % every == 0 {
            println!("{told:?}");
            eval(net, &format!("{}", told.update));
        }
    })
    .unwrap();
    {
        use trainyard_sched::control::{Batch, Log, Step};
        struct Firsts(Vec<(u32, u32, u32)>);
        impl Log for Firsts {
            fn step(&mut self, _: &Batch, step: &Step) {
                for d in step.decision.iter() {
                    for (id, t) in &d.targets {
                        if t.is_some() {
                            self.0.push((id.0, t.workers(), t.count_of(SERVER_TASK)));
                        }
                    }
                }
            }
        }
        let w = l.weights(&rules, Default::default());
        let mut t = other.clone();
        t.insert("weights".into(), w.to_text().into());
        for model in 0..8 {
            let jobs = vec![ServerJob { model, slot: 0, units: 3000.0 }];
            let mut log = Firsts(vec![]);
            let setup = Setup {
                cluster: server_cluster(nodes),
                tenants: Tenants::default(),
                workload: server_workload(&jobs, &speeds, "job"),
                physics: Physics::default(),
                options: Options::default(),
                seed: Seed(0),
            };
            trainyard_sim::simulate::simulate(
                setup,
                policies::build("dl2", &t).unwrap(),
                &mut log,
                |_, _| {},
            )
            .unwrap();
            let best = (1..=16)
                .flat_map(|w| (1..=16).map(move |u| (w, u)))
                .max_by(|a, b| {
                    speeds[model]
                        .iterations_per_s(a.0, a.1)
                        .total_cmp(&speeds[model].iterations_per_s(b.0, b.1))
                })
                .unwrap();
            let f = log.0[0];
            println!(
                "model {model} alone ({},{}) {:.4} best {best:?} {:.4} drf {:.4}; later {:?}",
                f.1,
                f.2,
                speeds[model].iterations_per_s(f.1, f.2),
                speeds[model].iterations_per_s(best.0, best.1),
                speeds[model].iterations_per_s(16, 16),
                &log.0[1..log.0.len().min(4)]
            );
        }
        // in company
        let mut log = Firsts(vec![]);
        let setup = traces(0);
        let kinds: Vec<u32> = setup.workload.jobs.iter().map(|(j, _)| j.model.unwrap().0).collect();
        trainyard_sim::simulate::simulate(setup, policies::build("dl2", &t).unwrap(), &mut log, |_, _| {})
            .unwrap();
        let mut by: std::collections::BTreeMap<u32, Vec<(u32, u32)>> = Default::default();
        for (id, w, u) in log.0 {
            by.entry(kinds[id as usize]).or_default().push((w, u));
        }
        for (k, v) in by {
            println!("company {k}: {:?}", &v[..v.len().min(12)]);
        }
    }
    let out = get("out", "");
    if !out.is_empty() {
        std::fs::write(out, l.weights(&rules, Default::default()).to_bytes()).unwrap();
    }
}
