//! The text of a page of metrics: OpenMetrics 1.0, and the format of Prometheus before it (0.0.4).
//!
//! A [`Family`] says what its samples are called and labelled with; a [`Page`] writes them so that
//! both formats are kept, whatever the values of labels are.

use std::fmt::{self, Display, Write as _};

use heliostat_types::Duration;
use stdx::histogram::Histogram;

/// Writing to a String.
const NEVER_FAILS: &str = "a String takes all text";

/// Which format a page is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4, for whoever does not ask for OpenMetrics.
    Prometheus,
}

impl Format {
    /// What a page of it is called in HTTP.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows, until the statistics begin anew.
    Counter,
    /// It is so now.
    Gauge,
    /// How many values lie below bounds.
    Histogram,
    /// Always 1; what it says is in its labels.
    Info,
}

impl Kind {
    /// What the formats call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// What is behind the name of each sample.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

/// Samples of one meaning.
#[derive(Debug)]
pub(super) struct Family {
    /// Without what a kind has behind it.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Besides the array's name, which all have but those of the program itself.
    pub(super) labels: &'static [&'static str],
    /// One line, without quotes and backslashes.
    pub(super) help: &'static str,
}

impl Family {
    /// What its samples are called.
    pub(super) fn sample_name(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }

    /// The unit, which is the end of the name; nothing where it is only counted.
    pub(super) fn unit(&self) -> &'static str {
        let units = ["seconds", "bytes", "ratio"];
        let unit = units.into_iter().find(|unit| {
            let before = self.name.strip_suffix(unit);
            before.is_some_and(|before| before.ends_with('_'))
        });
        unit.unwrap_or("")
    }
}

/// A time, written in seconds without loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) u128);

impl Seconds {
    pub(super) fn of(time: Duration) -> Self {
        Self(u128::from(time.as_ns()))
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let fraction = format!("{fraction:09}");
        let fraction = fraction.trim_end_matches('0');
        match fraction {
            "" => write!(f, "{whole}.0"),
            fraction => write!(f, "{whole}.{fraction}"),
        }
    }
}

/// A bound of a histogram, in the one way in which OpenMetrics writes such numbers: with an
/// exponent below 0.0001.
fn bound_text(ns: u64) -> String {
    if ns >= 100_000 {
        return Seconds(ns.into()).to_string();
    }
    // 4096 ns: "4.096" and nine digits less three.
    let digits = ns.to_string();
    let (first, rest) = digits.split_at(1);
    let exponent = 9 - rest.len();
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    format!("{first}{point}{rest}e-{exponent:02}")
}

/// Bounds of histograms, in nanoseconds: powers of two, where buckets of the accounting end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many doublings lie between two bounds.
    step: usize,
}

impl Bounds {
    /// Each twice the one before it, from 4 us to 69 s.
    pub(super) const FINE: Self = Self { step: 1 };
    /// Each four times the one before it, over the same times.
    pub(super) const COARSE: Self = Self { step: 2 };

    /// A leg in memory takes some 4 us, and after 69 s everybody has given up.
    const DOUBLINGS: std::ops::RangeInclusive<u32> = 12..=36;

    fn all(self) -> impl Iterator<Item = u64> {
        Self::DOUBLINGS
            .step_by(self.step)
            .map(|doublings| 1 << doublings)
    }
}

/// A page in the making.
#[derive(Debug)]
pub(super) struct Page {
    format: Format,
    text: String,
}

impl Page {
    /// An empty one.
    pub(super) const fn new(format: Format) -> Self {
        let text = String::new();
        Self { format, text }
    }

    /// Begins a family, whose samples follow; there may be none. All of them are of one `array`,
    /// where that is told.
    pub(super) fn family<'a>(
        &'a mut self,
        family: &'a Family,
        array: Option<&'a str>,
    ) -> Samples<'a> {
        let is_new = self.format == Format::OpenMetrics;
        let (name, kind) = match (is_new, family.kind) {
            (true, kind) => (family.name.to_owned(), kind.name()),
            (false, Kind::Info) => (family.sample_name(), Kind::Gauge.name()),
            (false, kind) => (family.sample_name(), kind.name()),
        };
        writeln!(self.text, "# TYPE {name} {kind}").expect(NEVER_FAILS);
        let unit = family.unit();
        if is_new && !unit.is_empty() {
            writeln!(self.text, "# UNIT {name} {unit}").expect(NEVER_FAILS);
        }
        writeln!(self.text, "# HELP {name} {}", family.help).expect(NEVER_FAILS);
        Samples {
            text: &mut self.text,
            name: family.sample_name(),
            family,
            array,
        }
    }

    /// All of it.
    pub(super) fn into_text(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

/// The samples of a family.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    text: &'a mut String,
    family: &'a Family,
    name: String,
    array: Option<&'a str>,
}

impl Samples<'_> {
    /// One sample, with values for all of the family's labels.
    ///
    /// # Panics
    /// Where there are more or fewer labels.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Display) -> &mut Self {
        self.sample("", labels, None, value);
        self
    }

    /// One histogram of nanoseconds.
    pub(super) fn add_histogram(
        &mut self,
        labels: &[&str],
        bounds: Bounds,
        times: Option<&Histogram>,
    ) -> &mut Self {
        let mut buckets = times.into_iter().flat_map(Histogram::buckets).peekable();
        let mut below = 0;
        for bound in bounds.all() {
            while let Some((_, _, count)) = buckets.next_if(|(low, _, _)| *low < bound) {
                below += count;
            }
            self.sample("_bucket", labels, Some(&bound_text(bound)), below);
        }
        let (count, sum) = times.map_or((0, 0), |times| (times.count(), times.sum()));
        self.sample("_bucket", labels, Some("+Inf"), count);
        self.sample("_count", labels, None, count);
        self.sample("_sum", labels, None, Seconds(sum));
        self
    }

    fn sample(&mut self, suffix: &str, values: &[&str], bound: Option<&str>, value: impl Display) {
        let names = self.family.labels;
        assert_eq!(names.len(), values.len(), "labels of {}", self.name);
        let array = self.array.map(|array| ("array", array));
        let given = names.iter().copied().zip(values.iter().copied());
        let bound = bound.map(|bound| ("le", bound));
        write!(self.text, "{}{suffix}", self.name).expect(NEVER_FAILS);
        let mut before = '{';
        for (name, value) in array.into_iter().chain(given).chain(bound) {
            write!(self.text, "{before}{name}=\"{}\"", Escaped(value)).expect(NEVER_FAILS);
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        writeln!(self.text, " {value}").expect(NEVER_FAILS);
    }
}

/// The value of a label between its quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                // Readers that end lines there are wrong, and there are some.
                control if control.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use stdx::histogram::Histogram;

    use super::{Bounds, Family, Format, Kind, Page, Seconds, bound_text};

    const COUNTED: Family = Family {
        name: "x_read_bytes",
        kind: Kind::Counter,
        labels: &["who"],
        help: "Bytes.",
    };

    const TIMED: Family = Family {
        name: "x_time_seconds",
        kind: Kind::Histogram,
        labels: &[],
        help: "Times.",
    };

    const TOLD: Family = Family {
        name: "x_build",
        kind: Kind::Info,
        labels: &["version"],
        help: "What it is.",
    };

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        page.family(&TOLD, None).add(&["1.0"], 1);
        page.family(&COUNTED, Some("disk"))
            .add(&["a\\b\"c\nd\re\u{1b}f"], 7)
            .add(&["}, {="], 8);
        page.into_text().replace(char::REPLACEMENT_CHARACTER, "?")
    }

    #[test]
    fn both_formats() {
        expect![[r##"
            # TYPE x_build info
            # HELP x_build What it is.
            x_build_info{version="1.0"} 1
            # TYPE x_read_bytes counter
            # UNIT x_read_bytes bytes
            # HELP x_read_bytes Bytes.
            x_read_bytes_total{array="disk",who="a\\b\"c\nd?e?f"} 7
            x_read_bytes_total{array="disk",who="}, {="} 8
            # EOF
        "##]]
        .assert_eq(&page(Format::OpenMetrics));
        expect![[r##"
            # TYPE x_build_info gauge
            # HELP x_build_info What it is.
            x_build_info{version="1.0"} 1
            # TYPE x_read_bytes_total counter
            # HELP x_read_bytes_total Bytes.
            x_read_bytes_total{array="disk",who="a\\b\"c\nd?e?f"} 7
            x_read_bytes_total{array="disk",who="}, {="} 8
        "##]]
        .assert_eq(&page(Format::Prometheus));
    }

    #[test]
    fn a_histogram_counts_what_lies_below_each_bound() {
        let mut times = Histogram::new();
        for ns in [0, 4095, 4096, 1_000_000, 70_000_000_000, 70_000_000_000] {
            times.record(ns);
        }
        let mut page = Page::new(Format::OpenMetrics);
        page.family(&TIMED, None)
            .add_histogram(&[], Bounds::COARSE, Some(&times));
        let text = page.into_text();
        let told = |start: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(start));
            lines.next().unwrap().trim().to_owned()
        };
        assert_eq!(told(r#"x_time_seconds_bucket{le="4.096e-06"}"#), "2");
        assert_eq!(told(r#"x_time_seconds_bucket{le="1.6384e-05"}"#), "3");
        assert_eq!(told(r#"x_time_seconds_bucket{le="0.000262144"}"#), "3");
        assert_eq!(told(r#"x_time_seconds_bucket{le="0.001048576"}"#), "4");
        assert_eq!(told(r#"x_time_seconds_bucket{le="68.719476736"}"#), "4");
        assert_eq!(told(r#"x_time_seconds_bucket{le="+Inf"}"#), "6");
        assert_eq!(told("x_time_seconds_count"), "6");
        assert_eq!(told("x_time_seconds_sum"), "140.001008191");
        let buckets = text.lines().filter(|line| line.contains("_bucket"));
        assert_eq!(buckets.count(), 14);
    }

    #[test]
    fn a_histogram_without_values_is_one() {
        let mut page = Page::new(Format::OpenMetrics);
        page.family(&TIMED, None)
            .add_histogram(&[], Bounds::FINE, None);
        let text = page.into_text();
        assert!(text.contains("x_time_seconds_count 0\nx_time_seconds_sum 0.0\n"));
        assert_eq!(text.matches("_bucket{").count(), 26);
    }

    #[test]
    fn times_lose_nothing() {
        assert_eq!(Seconds(1).to_string(), "0.000000001");
        assert_eq!(Seconds(1_500_000_000).to_string(), "1.5");
        assert_eq!(Seconds(0).to_string(), "0.0");
        let long = u128::from(u64::MAX) * 2;
        assert_eq!(Seconds(long).to_string(), "36893488147.41910323");
        assert_eq!(bound_text(4096), "4.096e-06");
        assert_eq!(bound_text(65_536), "6.5536e-05");
        assert_eq!(bound_text(50_000), "5e-05");
        assert_eq!(bound_text(131_072), "0.000131072");
        assert_eq!(bound_text(1 << 30), "1.073741824");
    }
}
