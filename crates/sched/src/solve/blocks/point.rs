//! A point between the bounds: variables, slacks of rows, and the dual of each; what is wrong with it; and how far it may go.

use super::scaled::Scaled;

/// All numbers that the method moves, or a step of them. Each is followed by its dual.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub x: Vec<f64>,
    pub x_dual: Vec<f64>,
    /// What is left of each block's time.
    pub time: Vec<f64>,
    pub time_dual: Vec<f64>,
    /// By how much each level is above its bound; the level itself where it has a logarithm. 1 and 0 where there is none.
    pub level: Vec<f64>,
    pub level_dual: Vec<f64>,
    /// What is left of each link. 1 for balances, whose dual has any sign.
    pub link: Vec<f64>,
    pub link_dual: Vec<f64>,
    pub rise: f64,
}

/// What rows lack.
#[derive(Clone, Debug, Default)]
pub(super) struct Residuals {
    pub x: Vec<f64>,
    pub time: Vec<f64>,
    pub level: Vec<f64>,
    pub link: Vec<f64>,
    pub rise: f64,
}

/// By how much products of numbers and their duals shall change.
#[derive(Clone, Debug, Default)]
pub(super) struct Products {
    pub x: Vec<f64>,
    pub time: Vec<f64>,
    pub level: Vec<f64>,
    pub link: Vec<f64>,
}

fn longest(values: &[f64], steps: &[f64], length: f64) -> f64 {
    // The greatest -step/value is the inverse of the longest step.
    let least =
        values.iter().zip(steps).fold(1.0 / length, |most: f64, (value, step)| most.max(-step / value));
    1.0 / least
}

fn product(a: &[f64], da: &[f64], b: &[f64], db: &[f64], by: (f64, f64)) -> f64 {
    let each = a.iter().zip(da).zip(b.iter().zip(db));
    each.map(|((a, da), (b, db))| (a + by.0 * da) * (b + by.1 * db)).sum()
}

impl Point {
    pub(super) fn sized(p: &Scaled) -> Self {
        let (n, m, k) = (p.gains.len(), p.blocks(), p.links());
        let level_dual = vec![0.0; m];
        let (level, link) = (vec![0.0; m], vec![0.0; k]);
        Self {
            x: vec![0.0; n],
            x_dual: vec![0.0; n],
            time: vec![0.0; m],
            time_dual: vec![0.0; m],
            level,
            level_dual,
            link,
            link_dual: vec![0.0; k],
            rise: 0.0,
        }
    }

    /// How far primal and dual numbers may go before one of them is nought, at most 1.
    pub(super) fn reach(&self, step: &Self, p: &Scaled) -> (f64, f64) {
        let mut primal = longest(&self.x, &step.x, 1.0);
        primal = longest(&self.time, &step.time, primal);
        primal = longest(&self.level, &step.level, primal);
        primal = longest(&self.link, &step.link, primal);
        let mut dual = longest(&self.x_dual, &step.x_dual, 1.0);
        dual = longest(&self.time_dual, &step.time_dual, dual);
        for (block, row) in p.rows.iter().enumerate() {
            if row.is_there {
                dual = longest(&self.level_dual[block..=block], &step.level_dual[block..=block], dual);
            }
        }
        for link in (0..p.links()).filter(|link| !p.is_balance[*link]) {
            dual = longest(&self.link_dual[link..=link], &step.link_dual[link..=link], dual);
        }
        (primal, dual)
    }

    /// The sum of all products that shall vanish, after part of a step.
    pub(super) fn gap_after(&self, step: &Self, p: &Scaled, by: (f64, f64)) -> f64 {
        let mut gap = 0.0;
        for (block, row) in p.rows.iter().enumerate() {
            let i = p.range(block);
            let of = |values: [&[f64]; 4], i: std::ops::Range<usize>| {
                let [a, da, b, db] = values.map(|values| &values[i.clone()]);
                product(a, da, b, db, by)
            };
            let mut own = of([&self.x, &step.x, &self.x_dual, &step.x_dual], i);
            own += of([&self.time, &step.time, &self.time_dual, &step.time_dual], block..block + 1);
            if row.is_there && row.logarithm == 0.0 {
                own += of([&self.level, &step.level, &self.level_dual, &step.level_dual], block..block + 1);
            }
            gap += p.counts[block] * own;
        }
        for link in (0..p.links()).filter(|link| !p.is_balance[*link]) {
            let primal = self.link[link] + by.0 * step.link[link];
            gap += primal * (self.link_dual[link] + by.1 * step.link_dual[link]);
        }
        gap
    }

    /// By how much products of levels with logarithms and their duals miss what they shall be after a step, relative to that.
    pub(super) fn logarithms_miss_after(&self, step: &Self, p: &Scaled, by: f64) -> f64 {
        let mut most = 0.0_f64;
        for (block, row) in p.rows.iter().enumerate().filter(|(_, row)| row.logarithm > 0.0) {
            let level = self.level[block] + by * step.level[block];
            let dual = self.level_dual[block] + by * step.level_dual[block];
            most = most.max((level * dual / row.logarithm - 1.0).abs());
        }
        most
    }

    pub(super) fn go(&mut self, step: &Self, by: (f64, f64)) {
        let add = |values: &mut [f64], steps: &[f64], by: f64| {
            values.iter_mut().zip(steps).for_each(|(value, step)| *value += by * step);
        };
        add(&mut self.x, &step.x, by.0);
        add(&mut self.time, &step.time, by.0);
        add(&mut self.level, &step.level, by.0);
        add(&mut self.link, &step.link, by.0);
        self.rise += by.0 * step.rise;
        add(&mut self.x_dual, &step.x_dual, by.1);
        add(&mut self.time_dual, &step.time_dual, by.1);
        add(&mut self.level_dual, &step.level_dual, by.1);
        add(&mut self.link_dual, &step.link_dual, by.1);
    }
}

impl Residuals {
    pub(super) fn sized(p: &Scaled) -> Self {
        let (n, m) = (p.gains.len(), p.blocks());
        let room = Vec::with_capacity;
        Self { x: room(n), time: room(m), level: room(m), link: room(p.links()), rise: 0.0 }
    }

    /// Looks at all rows of a point. Returns the greatest lack of a primal and of a dual row.
    pub(super) fn look(&mut self, p: &Scaled, at: &Point) -> (f64, f64) {
        self.x.clear();
        self.time.clear();
        self.level.clear();
        self.link.clear();
        self.link.extend(p.most.iter().zip(&at.link).zip(&p.is_balance).map(
            |((most, slack), is_balance)| {
                if *is_balance { 0.0 } else { most - slack }
            },
        ));
        self.rise = p.rise_gain;
        let (mut primal, mut dual) = (0.0_f64, 0.0_f64);
        for block in 0..p.blocks() {
            let own = &p.touched[p.touched_of(block)];
            let (row, count) = (p.rows[block], p.counts[block]);
            let (mut sum, mut level) = (0.0, 0.0);
            for i in p.range(block) {
                sum += at.x[i];
                level += p.slopes[i] * at.x[i];
                let mut priced = at.time_dual[block] - p.slopes[i] * at.level_dual[block];
                for (place, value) in p.entries_of(i) {
                    let link = own[*place];
                    self.link[link] -= count * value * at.x[i];
                    priced += value * at.link_dual[link];
                }
                let lack = p.gains[i] - priced + at.x_dual[i];
                dual = dual.max(lack.abs());
                self.x.push(lack);
            }
            let time = p.times[block] - sum - at.time[block];
            let short =
                if row.is_there { row.least + row.by * at.rise + at.level[block] - level } else { 0.0 };
            self.rise -= count * row.by * at.level_dual[block];
            primal = primal.max(time.abs()).max(short.abs());
            self.time.push(time);
            self.level.push(short);
        }
        primal = self.link.iter().fold(primal, |most, link| most.max(link.abs()));
        (primal, dual.max(self.rise.abs()))
    }
}

impl Products {
    pub(super) fn sized(p: &Scaled) -> Self {
        let (n, m) = (p.gains.len(), p.blocks());
        let room = Vec::with_capacity;
        Self { x: room(n), time: room(m), level: room(m), link: room(p.links()) }
    }

    /// Asks for no change.
    pub(super) fn clear(&mut self) {
        for values in [&mut self.x, &mut self.time, &mut self.level, &mut self.link] {
            values.fill(0.0);
        }
    }

    /// The greatest change asked for.
    pub(super) fn greatest(&self) -> f64 {
        let all = self.x.iter().chain(&self.time).chain(&self.level).chain(&self.link);
        all.fold(0.0, |most, change| most.max(change.abs()))
    }

    /// Asks for products of a common size, or of their own for logarithms, to second order if a first step is known.
    pub(super) fn aim(&mut self, p: &Scaled, at: &Point, size: f64, first: Option<&Point>) {
        let curved = |d: &[f64], e: &[f64], i: usize| d[i] * e[i];
        let aim = |out: &mut Vec<f64>, a: &[f64], b: &[f64], da: &[f64], db: &[f64]| {
            out.clear();
            if first.is_some() {
                out.extend((0..a.len()).map(|i| size - a[i] * b[i] - curved(da, db, i)));
            } else {
                out.extend((0..a.len()).map(|i| size - a[i] * b[i]));
            }
        };
        let step = first.unwrap_or(at);
        aim(&mut self.x, &at.x, &at.x_dual, &step.x, &step.x_dual);
        aim(&mut self.time, &at.time, &at.time_dual, &step.time, &step.time_dual);
        aim(&mut self.level, &at.level, &at.level_dual, &step.level, &step.level_dual);
        aim(&mut self.link, &at.link, &at.link_dual, &step.link, &step.link_dual);
        for link in (0..p.links()).filter(|link| p.is_balance[*link]) {
            self.link[link] = 0.0;
        }
        for (block, row) in p.rows.iter().enumerate() {
            if !row.is_there {
                self.level[block] = 0.0;
            } else if row.logarithm > 0.0 {
                self.level[block] += row.logarithm - size;
            }
        }
    }
}
