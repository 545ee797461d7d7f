//! Public lists of machines in CSV: Alibaba's of 2020, 2023 and 2026, its Lingjun topology, and Philly's machines
//! and virtual clusters. Each row is a machine, or a virtual cluster with a number of them.

use trainyard_sched::model::{GPU, MAX_GPUS_PER_NODE, Quota, Resources, Tenant, Weight};

use super::builder::{Builder, Machine, SOME_GPU};
use super::{ClusterFileError, Draft, Format};
use crate::document::Document;
use crate::strangers::header_is;
use crate::supplement::Supplement;
use crate::workload::Done;

/// More CPU than any machine has, in thousandths of a core.
const MOST_CPU_MILLI: u64 = 1_000_000_000;
/// More memory than any machine has, in MiB or GB.
const MOST_MEMORY: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
const GB: u64 = 1_000_000_000;
/// Philly's README: virtual clusters are counted in machines of 8 GPUs.
const PHILLY_GPUS: u64 = 8;

type Read = Result<Draft, ClusterFileError>;

/// Nodes of the GPU-sharing trace of 2023.
pub(super) const ALIBABA_2023: Format = Format {
    name: "alibaba-v2023",
    title: "Alibaba's node list of 2023",
    detect: |head| header_is(head, &["sn", "cpu_milli", "memory_mib", "gpu", "model"]),
    read: |document, _| {
        let table = document.table()?;
        let [sn, cpu, memory] =
            [table.column("sn")?, table.column("cpu_milli")?, table.column("memory_mib")?];
        let [gpus, model] = [table.column("gpu")?, table.column("model")?];
        let mut builder = Builder::new(document);
        let rows = table.each(|row| {
            let count = row.whole(gpus, u64::from(MAX_GPUS_PER_NODE))?;
            let machine = Machine {
                name: row.text(sn)?,
                gpu_type: if count == 0 { "" } else { row.text(model)? },
                gpus: count,
                cpu_milli: row.whole(cpu, MOST_CPU_MILLI)?,
                memory_bytes: row.whole(memory, MOST_MEMORY)? * MIB,
                ..Machine::default()
            };
            builder.push(row.line, &machine).map_err(ClusterFileError::from)
        })?;
        builder.assume("the list names no racks: all nodes stand in one");
        Ok(Draft::of(builder, rows))
    },
};

/// Nodes of the spot trace of 2026.
pub(super) const ALIBABA_2026: Format = Format {
    name: "alibaba-v2026",
    title: "Alibaba's node list of 2026",
    detect: |head| header_is(head, &["gpu_model", "gpu_capacity_num", "cpu_num", "node_name"]),
    read: |document, _| {
        let table = document.table()?;
        let [model, gpus] = [table.column("gpu_model")?, table.column("gpu_capacity_num")?];
        let [cpus, name] = [table.column("cpu_num")?, table.column("node_name")?];
        let mut builder = Builder::new(document);
        let mut numbers = Vec::new();
        let rows = table.each(|row| {
            let count = row.whole(gpus, u64::from(MAX_GPUS_PER_NODE))?;
            numbers.extend(row.get(name).parse::<u64>());
            let machine = Machine {
                name: row.text(name)?,
                gpu_type: if count == 0 { "" } else { row.text(model)? },
                gpus: count,
                cpu_milli: row.whole(cpus, MOST_CPU_MILLI / GPU)? * GPU,
                ..Machine::default()
            };
            builder.push(row.line, &machine).map_err(ClusterFileError::from)
        })?;
        numbers.sort_unstable();
        let gaps = numbers.windows(2).filter(|pair| pair[1] > pair[0].saturating_add(1)).count();
        if gaps > 0 {
            let what = format!("the node names are numbers with {gaps} gaps; nothing was put there");
            builder.report.find(Done::Noted, what, None);
        }
        builder.assume("the list names no racks and no memory: one rack, memory not tracked");
        Ok(Draft::of(builder, rows))
    },
};

/// Machines of the PAI trace of 2020, with its separate header put above it.
pub(super) const ALIBABA_2020: Format = Format {
    name: "alibaba-v2020",
    title: "Alibaba's machine table of 2020 (PAI)",
    detect: |head| header_is(head, &["machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"]),
    read: |document, _| {
        let table = document.table()?;
        let [name, model, cpus] =
            [table.column("machine")?, table.column("gpu_type")?, table.column("cap_cpu")?];
        let [memory, gpus] = [table.column("cap_mem")?, table.column("cap_gpu")?];
        let mut builder = Builder::new(document);
        let rows = table.each(|row| {
            let count = row.whole(gpus, u64::from(MAX_GPUS_PER_NODE))?;
            let machine = Machine {
                name: row.text(name)?,
                gpu_type: if count == 0 { "" } else { row.text(model)? },
                gpus: count,
                cpu_milli: row.whole(cpus, MOST_CPU_MILLI / GPU)? * GPU,
                memory_bytes: row.whole(memory, MOST_MEMORY)? * GB,
                ..Machine::default()
            };
            builder.push(row.line, &machine).map_err(ClusterFileError::from)
        })?;
        builder.assume("the list names no racks: all nodes stand in one");
        Ok(Draft::of(builder, rows))
    },
};

/// Hosts and the three levels of switches above them. Our model has racks and nothing between a rack and the whole.
pub(super) const LINGJUN: Format = Format {
    name: "lingjun",
    title: "Lingjun's topology of 2023",
    detect: |head| header_is(head, &["ip", "DSW", "PSW", "ASW"]),
    read: |document, supplement| {
        let gpus = supplement.whole("gpus", 1, u64::from(MAX_GPUS_PER_NODE))?;
        let gpu_type = supplement.get("type");
        let missing =
            || supplement.missing("Lingjun's topology", "how many GPUs a host has", "gpus=8,type=h800");
        let gpus = gpus.ok_or_else(missing)?;
        let table = document.table()?;
        let [host, pod, access] = [table.column("ip")?, table.column("PSW")?, table.column("ASW")?];
        let core = table.column("DSW")?;
        let mut builder = Builder::new(document);
        let mut above = std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
        let rows = table.each(|row| -> Result<(), ClusterFileError> {
            row.text(core)?;
            let rack = row.text(access)?;
            above.entry(rack.to_owned()).or_default().insert(row.text(pod)?.to_owned());
            let gpu_type = gpu_type.unwrap_or(SOME_GPU);
            let machine = Machine { name: row.text(host)?, rack, gpu_type, gpus, ..Machine::default() };
            Ok(builder.push(row.line, &machine)?)
        })?;
        let shared = above.values().filter(|pods| pods.len() > 1).count();
        builder.assume("each ASW is a rack; the levels PSW and DSW above it are not modelled");
        if shared > 0 {
            let what = format!("{shared} of {} ASW stand below more than one PSW", above.len());
            builder.report.find(Done::Noted, what, None);
        }
        said(&mut builder, gpus, gpu_type);
        Ok(Draft::of(builder, rows))
    },
};

/// The machines of Philly.
pub(super) const PHILLY_MACHINES: Format = Format {
    name: "philly-machines",
    title: "Philly's list of machines",
    detect: |head| header_is(head, &["machineId", "number of GPUs", "single GPU mem"]),
    read: |document, supplement| {
        let gpu_type = supplement.get("type");
        let table = document.table()?;
        let [name, gpus, memory] =
            [table.column("machineId")?, table.column("number of GPUs")?, table.column("single GPU mem")?];
        let mut builder = Builder::new(document);
        let rows = table.each(|row| -> Result<(), ClusterFileError> {
            let digits = row.text(memory)?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
            let gb = crate::document::whole(digits, 10_000).map_err(|what| row.wrong(memory, &what))?;
            let by_memory = format!("gpu-{gb}gb");
            let machine = Machine {
                name: row.text(name)?,
                gpu_type: gpu_type.unwrap_or(&by_memory),
                gpus: row.whole(gpus, u64::from(MAX_GPUS_PER_NODE))?,
                gpu_memory_bytes: Some(gb * GB),
                ..Machine::default()
            };
            Ok(builder.push(row.line, &machine)?)
        })?;
        if gpu_type.is_none() {
            builder.assume("the list names no GPU types: they are called by their memory");
        }
        builder.assume("the list names no racks: all nodes stand in one");
        Ok(Draft::of(builder, rows))
    },
};

/// The virtual clusters of Philly: tenants that are guaranteed their machines.
pub(super) const PHILLY_TENANTS: Format = Format {
    name: "philly-vcs",
    title: "Philly's virtual clusters",
    detect: |head| header_is(head, &["vc", "node num"]),
    read: |document, supplement| {
        let given = supplement.whole("gpus", 1, u64::from(MAX_GPUS_PER_NODE))?;
        let gpu_type = supplement.get("type");
        let gpus = given.unwrap_or(PHILLY_GPUS);
        let table = document.table()?;
        let [vc, count] = [table.column("vc")?, table.column("node num")?];
        let mut builder = Builder::new(document);
        let mut tenants: Vec<Tenant> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        let rows = table.each(|row| -> Result<(), ClusterFileError> {
            let (name, nodes) = (row.text(vc)?, row.whole(count, super::words::NODE_LIMIT)?);
            if !names.insert(name.to_owned()) {
                return Err(row.wrong(vc, "this virtual cluster is there twice").into());
            }
            let gpu_type = gpu_type.unwrap_or(SOME_GPU);
            for _ in 0..nodes {
                builder.push(row.line, &Machine { gpu_type, gpus, ..Machine::default() })?;
            }
            let quota = Quota { guaranteed: Resources::gpus(nodes * gpus), ..Quota::OPEN };
            tenants.push(Tenant { name: name.into(), parent: None, weight: Weight(nodes as f64), quota });
            Ok(())
        })?;
        builder.assume("each virtual cluster is a tenant that is guaranteed its GPUs and may borrow more");
        builder.assume(
            "the list names no nodes and no racks: all nodes stand in one, and any tenant may use any",
        );
        said(&mut builder, gpus, gpu_type);
        Ok(Draft { tenants, ..Draft::of(builder, rows) })
    },
};

/// Says what was not in the file.
fn said(builder: &mut Builder<'_>, gpus: u64, gpu_type: Option<&str>) {
    builder.assume(match gpu_type {
        Some(gpu_type) => format!("every node has {gpus} GPUs of type {gpu_type}"),
        None => format!("every node has {gpus} GPUs; their type is not given and called `{SOME_GPU}`"),
    });
}

/// Keeps the signature of the readers in one place.
const _: fn(&Document, &Supplement) -> Read = ALIBABA_2023.read;

#[cfg(test)]
mod tests {
    use crate::cluster::{ClusterFile, ClusterFileError, parse_with};

    fn read(text: &str, words: &str) -> Result<ClusterFile, ClusterFileError> {
        parse_with("nodes.csv", text, words)
    }

    #[test]
    fn alibabas_nodes_keep_their_names_and_amounts() {
        let text = "sn,cpu_milli,memory_mib,gpu,model\nopenb-0,32000,262144,0,\nopenb-1,96000,1024,8,G2\n";
        let found = read(text, "").unwrap();
        assert_eq!(found.cluster.to_string(), "2 nodes, 8 GPUs (8 g2)");
        let node = &found.cluster.nodes[1];
        assert_eq!(
            (&*node.name, node.holds.cpu_milli, node.holds.memory_bytes),
            ("openb-1", 96_000, 1 << 30)
        );
        assert_eq!((found.report.rows, found.report.kept), (2, 2));
        let text = "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,4\nH800,8,192,9\n";
        let found = read(text, "").unwrap();
        assert_eq!((&*found.cluster.nodes[1].name, found.cluster.gpu_count()), ("9", 9));
        assert!(found.report.findings.iter().any(|finding| finding.what.contains("1 gaps")));
        let text = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm,V100,96,512,8\n";
        assert_eq!(read(text, "").unwrap().cluster.to_string(), "1 nodes, 8 GPUs (8 v100)");
    }

    #[test]
    fn a_topology_needs_to_be_told_its_gpus() {
        let text = "ip,DSW,PSW,ASW\na,G6,P1,S1\nb,G6,P2,S1\nc,G6,P2,S2\n";
        let told = read(text, "").unwrap_err().to_string();
        assert!(told.contains("nodes.csv?gpus=8,type=h800"), "{told}");
        let found = read(text, "gpus=8,type=H800").unwrap();
        assert_eq!(found.cluster.to_string(), "3 nodes, 24 GPUs (24 h800)");
        let racks: Vec<u16> = found.cluster.nodes.iter().map(|node| node.rack.0).collect();
        assert_eq!(racks, [0, 0, 1]);
        let findings: Vec<&str> = found.report.findings.iter().map(|finding| &*finding.what).collect();
        assert!(findings[0].contains("PSW and DSW above it are not modelled"), "{findings:?}");
        assert!(findings[1].contains("1 of 2 ASW stand below more than one PSW"), "{findings:?}");
        assert!(read(text, "gpus=8,typ=a").unwrap_err().to_string().contains("did you mean `type`?"));
    }

    #[test]
    fn phillys_machines_and_virtual_clusters_are_read() {
        let text = "machineId,number of GPUs,single GPU mem\nm1,2,12GB\nm2,8, 24GB\n";
        let found = read(text, "").unwrap();
        assert_eq!(found.cluster.to_string(), "2 nodes, 10 GPUs (2 gpu-12gb, 8 gpu-24gb)");
        assert_eq!(found.cluster.gpu_types[1].memory_bytes, Some(24_000_000_000));
        let found = read("vc,node num\na,2\nb,1\n", "").unwrap();
        assert_eq!(found.cluster.to_string(), "3 nodes, 24 GPUs (24 gpu)");
        let promised: Vec<u64> = found.tenants.iter().map(|(_, t)| t.quota.guaranteed.gpu_milli).collect();
        assert_eq!(promised, [16_000, 8_000]);
        let twice = read("vc,node num\na,2\na,1\n", "").unwrap_err().to_string();
        assert_eq!(twice, "nodes.csv:3: vc `a`: this virtual cluster is there twice");
    }

    #[test]
    fn broken_rows_are_refused_with_line_field_and_value() {
        let head = "sn,cpu_milli,memory_mib,gpu,model\n";
        for (row, part) in [
            ("a,1,1,many,", "nodes.csv:2: gpu `many`: give a whole number"),
            ("a,1,1,65,G2", "gpu `65`"),
            ("a,1,1,8,", "model ``: is missing"),
            ("a,1e309,1,0,", "cpu_milli `1e309`"),
            ("a,1,1,0,\na,1,1,0,", "nodes.csv:3: node `a` is already at line 2"),
            ("a,1,1", "nodes.csv:2: expected 5 fields, found 3"),
            (",1,1,0,", "sn ``"),
            ("", "nodes.csv:1: no row follows"),
        ] {
            let told = read(&format!("{head}{row}\n"), "").unwrap_err().to_string();
            assert!(told.contains(part), "{row}: {told}");
        }
    }
}
