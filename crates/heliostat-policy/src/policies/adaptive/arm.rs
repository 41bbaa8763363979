//! How the time of a read grows with the way from where the leg's last one ended: by its root, as
//! short seeks do. A line through the reads that met an idle leg, by least squares.

use super::leg::Numbers;
use crate::constants::constants;

constants! { "arm":
    /// How many reads a line is of, about: enough that the turning of the platter evens out.
    READS: f32 = number(1_024.0);
    /// A line is drawn anew after so many: it moves slowly, and costs two divisions.
    READS_PER_LINE: u32 = count(16);
    /// The way says something about the time if its mean part is a tenth of the rest at least.
    TELLS: f32 = number(0.1);
    /// Ways are of all lengths where their roots vary by so much; of any two places it is 0.15.
    SPREAD: f32 = number(0.05);
    /// Of a longer read the way is not what takes most.
    pub(super) BYTES_MAX: u64 = bytes(128 << 10);
    /// Before so many there is no line.
    READS_MIN: f32 = number(32.0);

    /// What was kept over a restart is worth so many reads: enough for a line.
    RECALLED: f32 = number(64.0);
}

/// Sums over reads, the older the less weight; roots in those of 10^9 bytes, times in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arm {
    weight: f32,
    root: f32,
    root_root: f32,
    time: f32,
    root_time: f32,
    /// Reads since the line was drawn, and that line.
    reads: u32,
    line: Option<Line>,
    tells: Option<bool>,
}

/// Time in ns: `base`, and `slope` for each root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) base: f32,
    pub(super) slope: f32,
}

/// The root of a distance in bytes.
pub(super) fn root_of(distance: u64) -> f32 {
    (distance as f32 / 1e9).sqrt()
}

impl Arm {
    /// What is kept of it over a restart.
    pub(super) fn keep(&self, numbers: &mut Vec<f32>) {
        numbers.extend([self.weight, self.root, self.root_root]);
        numbers.extend([self.time, self.root_time]);
    }

    /// The arm that was kept; `None` where the numbers are none.
    pub(super) fn recalled(numbers: &mut Numbers<'_>) -> Option<Self> {
        let [weight, root, root_root, time, root_time] = numbers.array()?;
        let keep = (RECALLED.get() / weight).min(1.0);
        let mut arm = Self {
            weight: weight * keep,
            root: root * keep,
            root_root: root_root * keep,
            time: time * keep,
            root_time: root_time * keep,
            ..Self::default()
        };
        arm.redraw();
        Some(arm)
    }

    /// Says whether the line was drawn anew.
    pub(super) fn learn(&mut self, root: f32, time_ns: f32) -> bool {
        let keep = 1.0 - 1.0 / READS.get();
        let add = |sum: &mut f32, value: f32| *sum = *sum * keep + value;
        add(&mut self.weight, 1.0);
        add(&mut self.root, root);
        add(&mut self.root_root, root * root);
        add(&mut self.time, time_ns);
        add(&mut self.root_time, root * time_ns);
        self.reads += 1;
        let is_drawn = self.reads == READS_PER_LINE.get();
        if is_drawn {
            self.reads = 0;
            self.redraw();
        }
        is_drawn
    }

    fn redraw(&mut self) {
        self.line = self.draw();
        self.tells = self.way_share().map(|share| share > TELLS.get());
    }

    /// Which part of the rest the way is, on average.
    pub(super) fn way_share(&self) -> Option<f32> {
        let line = self.line?;
        let way = line.slope * self.root / self.weight;
        Some(if way > 0.0 {
            way / line.base.max(1.0)
        } else {
            0.0
        })
    }

    pub(super) const fn line(&self) -> Option<Line> {
        self.line
    }

    fn draw(&self) -> Option<Line> {
        let spread = self.root_root * self.weight - self.root * self.root;
        if self.weight < READS_MIN.get() || spread <= 0.0 {
            return None;
        }
        let slope = (self.root_time * self.weight - self.root * self.time) / spread;
        let slope = slope.max(0.0);
        let base = (self.time - slope * self.root) / self.weight;
        Some(Line { base, slope })
    }

    /// Whether ways were of all lengths: of such that are alike chance would tell.
    pub(super) fn is_spread(&self) -> bool {
        let all = self.root_root * self.weight;
        all - self.root * self.root > SPREAD.get() * all
    }

    /// The mean time of a read.
    pub(super) fn mean(&self) -> Option<f32> {
        (self.weight >= READS_MIN.get()).then(|| self.time / self.weight)
    }

    /// How many times as long reads take here as that line says.
    pub(super) fn ratio_to(&self, base: f32, slope: f32) -> Option<f32> {
        let mean = self.mean()?;
        let said = base + slope * self.root / self.weight;
        (said > 0.0).then(|| mean / said)
    }

    /// Whether the way says anything about the time; `None` before that is known.
    pub(super) const fn tells(&self) -> Option<bool> {
        self.tells
    }
}
