//! What ran where: a row for each node, a lane for each of its GPUs, and a bar for each stretch of time for which a
//! job held them. The drawing says whose and when; the job behind a bar is told by the page's script.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use trainyard_sched::metrics::{Block, Left, Timeline};
use trainyard_sched::model::{JobId, NodeId, Span};

use super::Figure;
use super::figure::{percent, x_ticks};
use super::tenant_colours::{OTHERS, TenantColours};
use crate::config::Inputs;
use crate::render::axis::Axis;
use crate::render::svg::{Path, WIDTH};
use crate::render::words::{count, duration, job_gpus, left_words, node_name, tenant_name};

/// How high all rows together should be in pixels, and the bounds of a lane.
const HEIGHT: f64 = 560.0;
const LANE: (f64, f64) = (2.0, 7.0);
const GAP: f64 = 5.0;
/// Room for the name of a group of nodes.
const GROUP: f64 = 19.0;
/// A bar is at least so wide, in units of the drawing.
const THINNEST: f64 = 0.6;
/// A bar has its tenant's letter if it is so wide and so high.
const ROOM_FOR_LETTER: (f64, f64) = (24.0, 11.0);
const MOST_LETTERS: usize = 160;

/// Where a node is drawn.
struct Place {
    node: NodeId,
    name: String,
    top: f64,
    height: f64,
}

/// A chart of what ran where.
pub(crate) struct Gantt<'a> {
    /// Jobs, tenants and machines.
    pub(crate) inputs: &'a Inputs,
    /// What is drawn.
    pub(crate) timeline: &'a Timeline,
    /// Time; the same for all policies of a page.
    pub(crate) axis: &'a Axis,
    /// Until when there is something, in seconds.
    pub(crate) end_s: f64,
    /// Whose colour is which.
    pub(crate) colours: &'a TenantColours,
    /// The most bars.
    pub(crate) most_bars: usize,
}

impl Gantt<'_> {
    /// The figure.
    pub(crate) fn draw(&self) -> Markup {
        let (places, groups, height) = self.places();
        if places.is_empty() {
            return html! { p.note { "No node has GPUs, so there is nothing to draw." } };
        }
        let (blocks, grain) = self.blocks();
        let shown = self.what_is_shown(&blocks, grain);
        let figure = Figure {
            title: "What ran where",
            reading: "A row is a node, a lane in it is one of its GPUs, and a bar is a job that holds them.",
            alternative: format!("A chart of nodes over time. {shown}"),
        };
        let body = html! {
            (self.legend())
            div.plot.ganttplot style={ "--height:" (height.ceil()) "px" } {
                div.yticks aria-hidden="true" {
                    @for (top, name) in &groups { span.rack style={ "top:" (top) "px" } { (name) } }
                    @for place in &places {
                        span style={ "top:" (place.top) "px;height:" (place.height) "px" } { (place.name) }
                    }
                }
                div.canvas {
                    (self.svg(&figure.alternative, &places, &blocks, height))
                    (self.letters(&places, &blocks))
                }
                (x_ticks(self.axis))
            }
            script type="application/json" { (PreEscaped(self.for_script(&places, &blocks))) }
            p.note { (shown) }
        };
        figure.draw("gantt", &body)
    }

    /// Where nodes and the names of their groups are, and how high all is.
    fn places(&self) -> (Vec<Place>, Vec<(f64, String)>, f64) {
        let cluster = &self.inputs.cluster;
        let lanes: u32 = self.timeline.nodes().map(|node| cluster.node(node).gpu_count()).sum();
        let lane = (HEIGHT / f64::from(lanes.max(1))).clamp(LANE.0, LANE.1);
        let group = |node: NodeId| (cluster.node(node).rack, cluster.node(node).gpu_type);
        let several = {
            let mut all: Vec<_> = self.timeline.nodes().map(group).collect();
            all.dedup();
            all.len() > 1
        };
        let (mut places, mut groups, mut top, mut last) = (Vec::new(), Vec::new(), 0.0, None);
        for id in self.timeline.nodes() {
            if several && last != Some(group(id)) {
                last = Some(group(id));
                let gpu_type = group(id).1.map_or("", |gpu_type| &*cluster.gpu_types[gpu_type.index()].name);
                groups.push((top, format!("rack {} · {gpu_type}", group(id).0.0)));
                top += GROUP;
            }
            let node = cluster.node(id);
            let height = (f64::from(node.gpu_count()) * lane).max(11.0);
            places.push(Place { node: id, name: node_name(node), top, height });
            top += height + GAP;
        }
        (places, groups, top)
    }

    /// The bars with the finest grain that keeps their number in bounds.
    fn blocks(&self) -> (Vec<Block>, Span) {
        let mut grain = Span::from_secs_f64(self.end_s / WIDTH);
        loop {
            let blocks = self.timeline.blocks(grain);
            if blocks.len() <= self.most_bars || grain.as_secs_f64() > self.end_s {
                return (blocks, grain);
            }
            grain = grain.scaled(1.5);
        }
    }

    fn what_is_shown(&self, blocks: &[Block], grain: Span) -> String {
        let (shown, all) = (self.timeline.nodes().count(), self.timeline.nodes_there_are());
        let merged = blocks.iter().filter(|block| block.bar.stretches > 1);
        let (bars, stretches) =
            merged.fold((0_u64, 0_u64), |sum, b| (sum.0 + 1, sum.1 + u64::from(b.bar.stretches)));
        let mut text = format!("{} bars", count(blocks.len() as u64));
        if shown < all {
            text += &format!(
                " on {shown} of {} nodes, spread evenly over racks and GPU types",
                count(all as u64)
            );
        } else {
            text += &if all == 1 {
                " on one node".to_owned()
            } else {
                format!(" on all {} nodes", count(all as u64))
            };
        }
        if bars > 0 {
            text += &format!(
                ". Neighbours on one GPU that last less than {} are drawn as one grey bar: {} bars stand for {} of them",
                duration(grain.as_secs_f64()),
                count(bars),
                count(stretches)
            );
        }
        text + "."
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend.tenantkey aria-label="Tenants and signs" {
                @for (colour, letter, name) in self.colours.legend(&self.inputs.tenants) {
                    li { i.key.tint style={ "--c:" (colour) } aria-hidden="true" { (letter) } (name) }
                }
                li { i.key.several aria-hidden="true" {} "several short ones" }
                li { i.key.stopmark aria-hidden="true" {} "stopped or moved" }
                li { i.key.lostmark aria-hidden="true" {} "lost or failed to start" }
                @if (0..self.timeline.nodes().count()).any(|row| self.timeline.away(row).next().is_some()) {
                    li { i.key.awaymark aria-hidden="true" {} "node is down" }
                }
            }
        }
    }

    /// Left end and width of a bar, in units of the drawing.
    fn span(&self, block: &Block) -> (f64, f64) {
        let from = self.axis.part(block.bar.from.as_secs_f64()) * WIDTH;
        let to = self.axis.part(block.bar.to.as_secs_f64()) * WIDTH;
        (from, (to - from).max(THINNEST))
    }

    fn series(&self, block: &Block) -> Option<usize> {
        let (job, _) = self.inputs.workload.jobs.get(block.bar.job.index())?;
        (block.bar.stretches == 1).then(|| self.colours.of(job.tenant))
    }

    fn svg(&self, alternative: &str, places: &[Place], blocks: &[Block], height: f64) -> Markup {
        let (mut beds, mut away) = (Path::default(), Path::default());
        for (row, place) in places.iter().enumerate() {
            beds.rectangle((0.0, place.top), (WIDTH, place.height));
            for (from, to) in self.timeline.away(row) {
                let (from, to) =
                    (self.axis.part(from.as_secs_f64()) * WIDTH, self.axis.part(to.as_secs_f64()) * WIDTH);
                away.rectangle((from, place.top), ((to - from).max(THINNEST), place.height));
            }
        }
        let mut of_series: BTreeMap<Option<usize>, Path> = BTreeMap::new();
        let (mut stopped, mut lost) = (Path::default(), Path::default());
        for block in blocks {
            let (x, width) = self.span(block);
            let (top, tall) = self.lanes(places, block);
            of_series.entry(self.series(block)).or_default().rectangle((x, top), (width, tall));
            if block.bar.stretches == 1 {
                match block.bar.left {
                    Left::Stopped | Left::Moved => stopped.upright(x + width, top, top + tall),
                    Left::Lost | Left::NotStarted => lost.upright(x + width, top, top + tall),
                    Left::StillHeld | Left::Ended(_) => {}
                }
            }
        }
        html! {
            svg role="img" aria-label=(alternative) viewBox={ "0 0 1000 " (height.ceil()) } preserveAspectRatio="none" {
                path.bed d=(beds.as_str()) {}
                @if !away.is_empty() { path.away d=(away.as_str()) {} }
                @for (series, path) in &of_series {
                    @match series {
                        Some(series) => path.bar style={ "--c:" (self.colours.colour(*series)) } d=(path.as_str()) {},
                        None => path.bar.several d=(path.as_str()) {},
                    }
                }
                @if !stopped.is_empty() { path.stopped d=(stopped.as_str()) {} }
                @if !lost.is_empty() { path.lost d=(lost.as_str()) {} }
            }
        }
    }

    /// Top and height of a bar.
    fn lanes(&self, places: &[Place], block: &Block) -> (f64, f64) {
        let place = &places[block.row];
        let lane = place.height / f64::from(self.inputs.cluster.node(place.node).gpu_count().max(1));
        (place.top + block.device as f64 * lane, block.devices as f64 * lane)
    }

    /// The letters of tenants on bars that have room for one.
    fn letters(&self, places: &[Place], blocks: &[Block]) -> Markup {
        let mut roomy: Vec<_> = blocks
            .iter()
            .filter_map(|block| {
                let series = self.series(block).filter(|series| *series != OTHERS)?;
                let ((x, width), (top, tall)) = (self.span(block), self.lanes(places, block));
                let room = width >= ROOM_FOR_LETTER.0 && tall >= ROOM_FOR_LETTER.1;
                room.then_some((width, x + width / 2.0, top + tall / 2.0, series))
            })
            .collect();
        roomy.sort_by(|a, b| b.0.total_cmp(&a.0));
        html! {
            div.letters aria-hidden="true" {
                @for (_, x, y, series) in roomy.iter().take(MOST_LETTERS) {
                    i style={ "left:" (percent(x / WIDTH)) ";top:" (crate::render::svg::number(*y)) "px" } { (TenantColours::letter(*series)) }
                }
            }
        }
    }

    /// What the script needs to tell about bars: rows, jobs, words, and seven numbers for each bar.
    fn for_script(&self, places: &[Place], blocks: &[Block]) -> String {
        let mut jobs: BTreeMap<JobId, usize> = BTreeMap::new();
        let mut ends: Vec<&str> = Vec::new();
        let mut told = Vec::new();
        let mut bars = String::new();
        for block in blocks {
            let next = jobs.len();
            let job = *jobs.entry(block.bar.job).or_insert_with(|| {
                told.push(self.job(block.bar.job));
                next
            });
            let words = left_words(block.bar.left);
            let end = ends.iter().position(|known| *known == words).unwrap_or_else(|| {
                ends.push(words);
                ends.len() - 1
            });
            let (from, to) = (block.bar.from.as_secs_f64(), block.bar.to.as_secs_f64());
            let digits = if self.end_s < 3600.0 { 1.0 } else { 0.0 };
            let round = |s: f64| (s * 10_f64.powf(digits)).round() / 10_f64.powf(digits);
            let numbers =
                [block.row as f64, block.device as f64, block.devices as f64, round(from), round(to - from)];
            for number in numbers {
                bars += &format!("{number},");
            }
            bars += &format!("{job},{end},{},", block.bar.stretches);
        }
        bars.pop();
        let node = |place: &Place| {
            let gpus = self.inputs.cluster.node(place.node).gpu_count();
            (place.name.clone(), place.top, place.height, gpus)
        };
        let nodes: Vec<_> = places.iter().map(node).collect();
        let rest =
            serde_json::json!({ "nodes": nodes, "jobs": told, "ends": ends, "axis": self.axis.for_script() });
        // Names come from traces, and must not end the element that they stand in.
        let rest = rest.to_string().replace('<', "\\u003c");
        format!("{},\"bars\":[{bars}]}}", rest.trim_end_matches('}'))
    }

    /// Name, tenant and GPUs of a job.
    fn job(&self, id: JobId) -> (String, String, String) {
        let Some((job, _)) = self.inputs.workload.jobs.get(id.index()) else {
            return (id.to_string(), String::new(), String::new());
        };
        let name =
            if *job.name == *id.0.to_string() { id.to_string() } else { format!("{id} ({})", job.name) };
        (name, tenant_name(&self.inputs.tenants, job.tenant), job_gpus(job))
    }
}
