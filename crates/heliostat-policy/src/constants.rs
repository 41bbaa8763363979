//! The numbers that `adaptive` goes by and nobody sets, and how a sweep plays with other ones.
//!
//! `constants!` defines and lists them, and [`Constant::get`] reads them. That is the number
//! itself, as if it stood there, unless the crate is built with the feature `sweep`: then a thread
//! can have another one for a while. Nothing else depends on the feature.

#[cfg(feature = "sweep")]
use std::cell::{Cell, RefCell};
#[cfg(feature = "sweep")]
use std::collections::BTreeSet;

use heliostat_types::Duration;

use crate::policies::adaptive;
use crate::read_ahead;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantUnit {
    /// A share, a weight, or a number of things that need not be whole.
    Number,
    /// How many times as long, as fast or as much: 1 is no difference.
    Times,
    /// Whole things, one at least.
    Count,
    /// Bytes, in whole blocks of 4 KiB.
    Bytes,
    /// Nanoseconds.
    Time,
}

/// A constant, for people and for sweeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConstantInfo {
    /// The module and the name there: `choice.BAND`.
    pub name: &'static str,
    /// What it is.
    pub value: f64,
    /// What that counts.
    pub unit: ConstantUnit,
}

const BLOCK_BYTES: f64 = 4096.0;

impl ConstantInfo {
    /// The value that is `factor` times as large, or that of the unit which is nearest to it. Of a
    /// number of times it is what is more than 1 that is taken `factor` times: half of 1.5 times as
    /// long is 1.25 times as long.
    pub fn scaled(&self, factor: f64) -> f64 {
        let scaled = self.value * factor;
        match self.unit {
            ConstantUnit::Number => scaled,
            ConstantUnit::Times => (1.0 + (self.value - 1.0) * factor).max(0.0),
            ConstantUnit::Count | ConstantUnit::Time => scaled.round().max(1.0),
            ConstantUnit::Bytes => (scaled / BLOCK_BYTES).round().max(1.0) * BLOCK_BYTES,
        }
    }
}

/// All constants, in the order of the code.
pub fn all_constants() -> impl Iterator<Item = &'static ConstantInfo> {
    let lists = adaptive::ALL_CONSTANTS
        .iter()
        .chain(&read_ahead::ALL_CONSTANTS);
    lists.flat_map(|list| *list)
}

/// A number that was chosen: a threshold, a weight, a factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constant<T> {
    value: T,
    info: ConstantInfo,
}

const fn info(name: &'static str, value: f64, unit: ConstantUnit) -> ConstantInfo {
    ConstantInfo { name, value, unit }
}

impl Constant<f32> {
    pub(crate) const fn number(name: &'static str, value: f32) -> Self {
        let info = info(name, value as f64, ConstantUnit::Number);
        Self { value, info }
    }

    pub(crate) const fn times(name: &'static str, value: f32) -> Self {
        let info = info(name, value as f64, ConstantUnit::Times);
        Self { value, info }
    }

    pub(crate) const fn ns(name: &'static str, value: f32) -> Self {
        let info = info(name, value as f64, ConstantUnit::Time);
        Self { value, info }
    }
}

impl Constant<u32> {
    pub(crate) const fn count(name: &'static str, value: u32) -> Self {
        let info = info(name, value as f64, ConstantUnit::Count);
        Self { value, info }
    }
}

impl Constant<u64> {
    pub(crate) const fn count(name: &'static str, value: u64) -> Self {
        let info = info(name, value as f64, ConstantUnit::Count);
        Self { value, info }
    }

    pub(crate) const fn bytes(name: &'static str, value: u64) -> Self {
        let info = info(name, value as f64, ConstantUnit::Bytes);
        Self { value, info }
    }

    pub(crate) const fn ns(name: &'static str, value: u64) -> Self {
        let info = info(name, value as f64, ConstantUnit::Time);
        Self { value, info }
    }
}

impl Constant<Duration> {
    pub(crate) const fn time(name: &'static str, value: Duration) -> Self {
        let info = info(name, value.as_ns() as f64, ConstantUnit::Time);
        Self { value, info }
    }
}

impl<T> Constant<T> {
    pub(crate) const fn info(&self) -> ConstantInfo {
        self.info
    }
}

#[cfg(not(feature = "sweep"))]
impl<T: Copy> Constant<T> {
    /// The number.
    #[inline]
    pub(crate) const fn get(&self) -> T {
        self.value
    }
}

#[cfg(feature = "sweep")]
impl<T: OfSweep> Constant<T> {
    /// The number that this thread goes by.
    #[inline]
    pub(crate) fn get(&self) -> T {
        READ.with_borrow_mut(|read| {
            if let Some(read) = read {
                read.insert(self.info.name);
            }
        });
        match OTHER.get() {
            Some((name, value)) if name == self.info.name => T::of_sweep(value),
            _ => self.value,
        }
    }
}

#[cfg(feature = "sweep")]
thread_local! {
    /// The constant that is another number on this thread, and that number.
    static OTHER: Cell<Option<(&'static str, f64)>> = const { Cell::new(None) };
    /// The constants that were read on this thread, while somebody wants to know.
    static READ: RefCell<Option<BTreeSet<&'static str>>> = const { RefCell::new(None) };
}

/// Does `run` on this thread, and says which constants it has read: it does the same whatever the
/// others are.
#[cfg(feature = "sweep")]
pub fn constants_read<R>(run: impl FnOnce() -> R) -> (R, BTreeSet<&'static str>) {
    READ.set(Some(BTreeSet::new()));
    let result = run();
    (result, READ.take().unwrap_or_default())
}

/// Does `run` on this thread with `value` in place of one constant.
#[cfg(feature = "sweep")]
pub fn with_constant<R>(constant: &ConstantInfo, value: f64, run: impl FnOnce() -> R) -> R {
    /// Also where `run` panics.
    struct Restored(Option<(&'static str, f64)>);
    impl Drop for Restored {
        fn drop(&mut self) {
            OTHER.set(self.0);
        }
    }
    let _restored = Restored(OTHER.replace(Some((constant.name, value))));
    run()
}

/// What a constant can be.
#[cfg(feature = "sweep")]
pub(crate) trait OfSweep: Copy {
    fn of_sweep(value: f64) -> Self;
}

#[cfg(feature = "sweep")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`scaled` gives whole numbers where they have to be, and casts saturate"
)]
mod of_sweep {
    use heliostat_types::Duration;

    use super::OfSweep;

    impl OfSweep for f32 {
        fn of_sweep(value: f64) -> Self {
            value as Self
        }
    }

    impl OfSweep for u32 {
        fn of_sweep(value: f64) -> Self {
            value as Self
        }
    }

    impl OfSweep for u64 {
        fn of_sweep(value: f64) -> Self {
            value as Self
        }
    }

    impl OfSweep for Duration {
        fn of_sweep(value: f64) -> Self {
            Self::from_ns(value as u64)
        }
    }
}

/// Defines the constants of a module, and lists them as `CONSTANTS` there:
///
/// ```text
/// constants! { "choice":
///     /// Why it is that.
///     BAND: f32 = times(1.05);
/// }
/// ```
///
/// defines `const BAND: Constant<f32>`, by the function `times` of that type.
macro_rules! constants {
    ($module:literal: $(
        $(#[$doc:meta])* $visible:vis $name:ident: $type:ty = $unit:ident($value:expr);
    )+) => {
        $(
            $(#[$doc])*
            $visible const $name: $crate::constants::Constant<$type> =
                $crate::constants::Constant::<$type>::$unit(
                    concat!($module, ".", stringify!($name)),
                    $value,
                );
        )+
        /// All of these.
        pub(crate) const CONSTANTS: &[$crate::constants::ConstantInfo] = &[$($name.info()),+];
    };
}
pub(crate) use constants;

#[cfg(test)]
mod tests;
