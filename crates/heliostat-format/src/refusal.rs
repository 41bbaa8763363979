//! Why a leg, or an array, is not served.

use std::fmt;

/// Something that is understood, and cannot be right or is not done here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The leg that says it; empty where only one is talked of, or all.
    pub leg: String,
    /// What says it, by md's name for it.
    pub field: &'static str,
    /// What it says.
    pub value: String,
    /// What is wrong with that.
    pub why: String,
    /// What can be done.
    pub way_out: String,
}

impl Refusal {
    pub(crate) fn new(
        field: &'static str,
        value: impl fmt::Display,
        why: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self {
            leg: String::new(),
            field,
            value: value.to_string(),
            why: why.into(),
            way_out: way_out.into(),
        }
    }

    /// The same of one of several legs.
    #[must_use]
    pub fn of(self, leg: &str) -> Self {
        Self {
            leg: leg.to_owned(),
            ..self
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.leg.is_empty() {
            write!(f, "{}: ", self.leg)?;
        }
        let (field, value, why, way_out) = (self.field, &self.value, &self.why, &self.way_out);
        write!(f, "{field} is {value}: {why}; {way_out}")
    }
}

impl std::error::Error for Refusal {}
