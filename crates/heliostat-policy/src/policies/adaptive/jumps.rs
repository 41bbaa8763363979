//! Whether a leg has an arm, as far as reads tell that it goes from one to the next without a
//! pause: what it takes to get to a read elsewhere, beside one that goes on where the last ended.

use heliostat_types::{Duration, Extent, Instant};

use super::arm::{Arm, root_of};
use crate::constants::constants;

constants! { "jumps":
    /// A read that begins up to this far behind the last one goes on with it.
    NEAR_BYTES: u64 = bytes(1 << 20);
    /// What a jump takes by itself is known of reads that are as short, as the one before was,
    SHORT_BYTES: u64 = bytes(64 << 10);
    /// or about as long as those that go on: by no more than this.
    ALIKE: u64 = count(2);
    /// Where so few do not tell, what was told before a restart counts.
    TOLD_JUMPS: u32 = count(64);
    /// Reads that go on are averaged over about so many.
    NEAR_WEIGHT: f32 = number(1.0 / 8.0);
    /// Jumps are averaged over about so many; half of them are enough.
    JUMPS: u32 = count(24);
    /// A leg has an arm where a jump takes so much longer, or so long where that grows with the way
    /// by this share of the rest: by less it does by chance, as others are done with meanwhile.
    ARM_NS: f32 = ns(2e6);
    FURTHER: f32 = number(0.3);
    /// Few of its jumps are quick, of that many: of flash that is busy with others now
    /// and then more are, and of a disk those to what it has read ahead.
    QUICK_NS: f32 = ns(1e6);
    QUICK_SHARE: f32 = number(0.3);
    QUICK_JUMPS: u32 = count(512);
    /// It has none where a jump takes less than this, besides so much for each byte, also beside
    /// writes; short ones many times, as a disk answers what it has in its cache.
    NO_ARM_NS: f32 = ns(5e5);
    NO_ARM_BYTE_NS: f32 = number(4.0);
    /// Nearly all of its jumps are quick then: a disk behind a cache has a mean as short by times.
    NO_ARM_QUICK_SHARE: f32 = number(0.95);
    NO_ARM_JUMPS: u32 = count(256);
    /// Nor are jumps that take as long as an arm more than so much of the time of all, of hundreds:
    /// a drive that reads on in several places answers dozens from there for each of them.
    LONG_NS: f32 = ns(4e6);
    /// An arm takes no longer than this, a pause of flash does.
    LONGEST_NS: f32 = ns(2e7);
    LONG_SHARE: f32 = number(0.2);
    LONG_JUMPS: f32 = number(512.0);
    /// Nor where it reads more than a byte in a ns, over so many bytes: no disk does that.
    NO_ARM_RATE: f32 = number(1.0);
    NO_ARM_BYTES: u64 = bytes(64 << 20);
}

/// What is known of that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jumps {
    /// The last read, and when it was answered.
    last: Option<(Extent, Instant)>,
    /// The longest write since, in bytes; 0: none.
    written_bytes: u64,
    /// How long reads that go on are, and what they take, in ns.
    near: Option<(u64, f32)>,
    /// How many bytes were read of late, in which time.
    bytes: u64,
    ns: f32,
    is_fast: bool,
    /// What jumps take that meet no writes, or are short, as these are, less what a read takes that
    /// goes on, as far as that is known; which share of them is quick,
    arm: Arm,
    quick: Mean,
    /// and what those of them take where it is.
    compared: Mean,
    /// What all take by themselves, beyond a part for each byte, and how many were about as long
    /// as those that go on.
    own: Mean,
    alike: u32,
    /// What all of them took of late, and the long ones of them.
    all_ns: f32,
    long_ns: f32,
}

/// A mean of the last ones.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u32,
    value: f32,
}

impl Mean {
    /// One more, of which about so many count.
    fn note(&mut self, value: f32, most: u32) {
        self.count = self.count.saturating_add(1);
        self.value += (value - self.value) / self.count.min(most) as f32;
    }
}

impl Jumps {
    /// A read was answered. Whether there is more to tell by that.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        extent: Extent,
        service_time: Duration,
    ) -> bool {
        let written_bytes = std::mem::take(&mut self.written_bytes);
        let Some((last, at)) = self.last.replace((extent, now)) else {
            return false;
        };
        // Writes that are answered meanwhile are in its cache.
        let own = service_time.min(now.saturating_since(at));
        let own_ns = own.as_ns() as f32;
        let ended = last.end();
        let (offset, len) = (extent.offset(), extent.len());
        let is_fast_now = self.note_rate(len, own_ns);
        if offset.wrapping_sub(ended) < NEAR_BYTES.get() {
            self.goes_on(len, own_ns);
            return is_fast_now;
        }
        let alike = self.near.filter(|near| are_alike(near.0, len));
        let ns = match alike {
            Some((_, near_ns)) => (own_ns - near_ns).max(0.0),
            None if len.max(last.len()) <= SHORT_BYTES.get() => own_ns,
            None => return is_fast_now,
        };
        let beyond_ns = own_ns - NO_ARM_BYTE_NS.get() * len as f32;
        self.own.note(beyond_ns.max(0.0), JUMPS.get());
        self.note_long(own_ns, beyond_ns >= LONG_NS.get());
        self.alike = self.alike.saturating_add(u32::from(alike.is_some()));
        let is_enough = self.own.count.is_multiple_of(JUMPS.get() / 2);
        let is_aside = alike.is_none() && written_bytes <= SHORT_BYTES.get();
        if written_bytes > 0 && !is_aside {
            return is_enough || is_fast_now;
        }
        if alike.is_some() {
            self.compared.note(ns, JUMPS.get());
        }
        let is_drawn = self.arm.learn(root_of(offset.abs_diff(ended)), ns);
        let is_quick = f32::from(u8::from(ns < QUICK_NS.get()));
        self.quick.note(is_quick, QUICK_JUMPS.get());
        is_drawn || is_enough || is_fast_now
    }

    /// A jump has taken so long by itself, which is as long as an arm takes, or not.
    fn note_long(&mut self, own_ns: f32, is_long: bool) {
        let kept = 1.0 - 1.0 / LONG_JUMPS.get();
        let long_ns = if is_long {
            own_ns.min(LONGEST_NS.get())
        } else {
            0.0
        };
        self.all_ns = self.all_ns * kept + own_ns;
        self.long_ns = self.long_ns * kept + long_ns;
    }

    /// Whether jumps that are as long as an arm takes are a part of the time that all take.
    pub(super) fn are_some_long(&self) -> bool {
        self.long_ns > LONG_SHARE.get() * self.all_ns
    }

    /// Something is written, or was.
    pub(super) fn written(&mut self, bytes: u64) {
        self.written_bytes = self.written_bytes.max(bytes);
    }

    /// A read was one that goes on.
    fn goes_on(&mut self, len: u64, own_ns: f32) {
        self.near = match self.near {
            Some((known, ns)) if are_alike(known, len) => {
                Some((known, ns + NEAR_WEIGHT.get() * (own_ns - ns)))
            }
            _ => Some((len, own_ns)),
        };
    }

    /// Whether it has just been seen to read faster than any disk.
    fn note_rate(&mut self, len: u64, own_ns: f32) -> bool {
        self.bytes = self.bytes.saturating_add(len);
        self.ns += own_ns;
        if self.is_fast || self.bytes < NO_ARM_BYTES.get() {
            return false;
        }
        self.is_fast = self.bytes as f32 > NO_ARM_RATE.get() * self.ns;
        (self.bytes, self.ns) = (0, 0.0);
        self.is_fast
    }

    /// Whether there were so few yet that it says little where they do not tell.
    pub(super) fn are_few(&self) -> bool {
        self.own.count < TOLD_JUMPS.get()
    }

    /// Whether the leg has an arm; `None` where that cannot be told.
    pub(super) fn tell(&self) -> Option<bool> {
        let enough = JUMPS.get() / 2;
        let are_quick = self.quick.count == 0 || self.quick.value > NO_ARM_QUICK_SHARE.get();
        let is_short = self.own.value < NO_ARM_NS.get() && are_quick && !self.are_some_long();
        if self.is_fast
            || is_short && (self.alike >= enough || self.own.count >= NO_ARM_JUMPS.get())
        {
            return Some(false);
        }
        let is_far = self.compared.count >= enough && self.compared.value > ARM_NS.get();
        let mean_ns = self.arm.mean().unwrap_or(0.0);
        let further = self.arm.way_share().filter(|_| self.arm.is_spread());
        let is_further = mean_ns > ARM_NS.get() && further > Some(FURTHER.get());
        (self.quick.value < QUICK_SHARE.get() && (is_far || is_further)).then_some(true)
    }
}

fn are_alike(one: u64, other: u64) -> bool {
    one <= ALIKE.get().saturating_mul(other) && other <= ALIKE.get().saturating_mul(one)
}
