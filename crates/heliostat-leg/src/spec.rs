//! Legs as people write them: `/dev/sda`, `./disk.img`, `mem:SIZE`, `model:NAME,key=value`,
//! `nbd://HOST/EXPORT`.

use std::fmt;
use std::path::PathBuf;

use heliostat_model::{DRIVES, ErrorRule, FailedKind, FaultEffect, FaultRule, ModelParams, drive};
use heliostat_nbd::uri::ExportUri;
use heliostat_types::{Extent, Instant, SECTOR_BYTES};
use stdx::units::{parse_size, parse_time_ns};

use crate::error::LegError;

/// What a text names; nothing is opened or looked at yet.
#[derive(Clone, Debug, PartialEq)]
pub struct LegSpec {
    text: String,
    pub(crate) kind: SpecKind,
}

/// The kinds of leg that there are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SpecKind {
    /// A regular file or a block device.
    Path(PathBuf),
    /// Memory of this many bytes.
    Memory {
        /// How many.
        size_bytes: u64,
    },
    /// A device model in real time.
    Model(ModelSpec),
    /// An export of an NBD server.
    Nbd(NbdSpec),
}

/// An export, and how it is reached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NbdSpec {
    /// Where it is.
    pub(crate) uri: ExportUri,
    /// Over how many connections at most.
    pub(crate) connections: usize,
}

/// How many connections there are to a server that takes several: what is won by more is little
/// where all of them are served by one thread of ours.
const CONNECTIONS_DEFAULT: usize = 4;

/// How many there may be.
const CONNECTIONS_MAX: usize = 16;

/// A device model, and what its bytes lie in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelSpec {
    /// What it is made of.
    pub(crate) params: ModelParams,
    /// What that is, in a few words.
    pub(crate) summary: String,
    /// Its capacity, where it is not that of the file or of what it is made of.
    pub(crate) size_bytes: Option<u64>,
    /// The file that holds the bytes; memory does otherwise.
    pub(crate) file: Option<PathBuf>,
    /// What goes wrong, and when.
    pub(crate) faults: Vec<FaultRule>,
    /// The write cache that loses what was not flushed, where there is one.
    pub(crate) cache: Option<CacheSpec>,
}

/// A volatile write cache in the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSpec {
    /// How much it holds at most.
    pub(crate) size_bytes: u64,
    /// What is lost or kept as a whole.
    pub(crate) torn: Torn,
    /// What its luck follows from.
    pub(crate) seed: u64,
}

/// The unit in which writes are torn when the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Torn {
    /// The leg's logical block.
    Logical,
    /// The leg's physical block.
    Physical,
}

impl Default for CacheSpec {
    fn default() -> Self {
        Self {
            // As small drives have it; most of it lies idle between flushes.
            size_bytes: 16 << 20,
            torn: Torn::Logical,
            seed: 0,
        }
    }
}

/// The smallest write cache: some blocks of any size.
const CACHE_MIN_BYTES: u64 = 64 << 10;

/// The largest write cache: what drives have at most.
const CACHE_MAX_BYTES: u64 = 1 << 30;

impl LegSpec {
    /// Understands a text.
    ///
    /// # Errors
    /// Where it names no kind of leg that there is, or a key or value is wrong; the message says
    /// what is expected.
    pub fn parse(text: &str) -> Result<Self, LegError> {
        let kind = parse_kind(text).map_err(|problem| LegError::Spec {
            text: text.escape_debug().to_string(),
            problem,
        })?;
        Ok(Self {
            text: text.to_owned(),
            kind,
        })
    }

    /// A model called `name` that has no entry of its own among the drives: made of `params`, and
    /// with `keys` as behind the name of a model in [`LegSpec::parse`], from its comma on.
    ///
    /// # Errors
    /// Where a key or value is wrong.
    pub fn model(name: &str, params: ModelParams, keys: &str) -> Result<Self, LegError> {
        // Any drive: what it is made of is replaced.
        let mut spec = Self::parse(&format!("model:{}{keys}", DRIVES[0].name))?;
        spec.text = format!("model:{name}{keys}");
        if let SpecKind::Model(model) = &mut spec.kind {
            model.params = params;
            name.clone_into(&mut model.summary);
        }
        Ok(spec)
    }
}

impl fmt::Display for LegSpec {
    /// The text that it was parsed from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse_kind(text: &str) -> Result<SpecKind, String> {
    // A file's name could otherwise write lines of its own into logs and listings.
    if text.chars().any(char::is_control) {
        return Err("it has a line break or another control character in it; rename it".to_owned());
    }
    if let Some(size) = text.strip_prefix("mem:") {
        let size_bytes = parse_blocks(size)?;
        return Ok(SpecKind::Memory { size_bytes });
    }
    if let Some(model) = text.strip_prefix("model:") {
        return parse_model(model).map(SpecKind::Model);
    }
    if ["nbd:", "nbds:", "nbd+unix:", "nbds+unix:"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
    {
        return parse_nbd(text).map(SpecKind::Nbd);
    }
    if text.contains('/') {
        return Ok(SpecKind::Path(PathBuf::from(text)));
    }
    let expected = if text.contains(':') {
        "mem:SIZE, model:NAME and URIs of NBD exports (nbd://HOST/EXPORT, \
         nbd+unix:///EXPORT?socket=PATH) are the kinds of leg besides paths"
            .to_owned()
    } else {
        format!("a path has a '/' in it, as in ./{text}")
    };
    Err(expected)
}

/// A size in whole blocks of 512 bytes, and not zero.
fn parse_blocks(text: &str) -> Result<u64, String> {
    let size_bytes = parse_size(text).map_err(|error| error.to_string())?;
    if size_bytes == 0 || !size_bytes.is_multiple_of(512) {
        return Err(format!(
            "a size is a multiple of 512 bytes and not zero, and {size_bytes} is neither"
        ));
    }
    Ok(size_bytes)
}

/// The URI of an export, with `x-connections=N` among its parameters perhaps.
fn parse_nbd(text: &str) -> Result<NbdSpec, String> {
    let (place, query) = text.split_once('?').unwrap_or((text, ""));
    let mut connections = CONNECTIONS_DEFAULT;
    let mut public = Vec::new();
    for item in query.split('&') {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        if key == "x-connections" {
            let count = value.parse().ok();
            let count = count.filter(|count| (1..=CONNECTIONS_MAX).contains(count));
            connections = count.ok_or_else(|| {
                format!("x-connections= is a number from 1 to {CONNECTIONS_MAX}, not '{value}'")
            })?;
        } else if key.starts_with("x-") {
            return Err(format!(
                "there is no parameter '{key}'; of ours there is x-connections=N"
            ));
        } else {
            public.push(item);
        }
    }
    let uri = match public.join("&").as_str() {
        "" => place.to_owned(),
        query => format!("{place}?{query}"),
    };
    let uri = uri
        .parse::<ExportUri>()
        .map_err(|error| error.to_string())?;
    Ok(NbdSpec { uri, connections })
}

fn parse_model(text: &str) -> Result<ModelSpec, String> {
    let mut items = text.split(',');
    let name = items.next().unwrap_or_default();
    let drive = drive(name).ok_or_else(|| {
        let names: Vec<&str> = DRIVES.iter().map(|drive| drive.name).collect();
        format!("there is no model '{name}'; there are {}", names.join(", "))
    })?;
    let mut spec = ModelSpec {
        params: drive.params,
        summary: drive.summary.to_owned(),
        size_bytes: None,
        file: None,
        faults: Vec::new(),
        cache: None,
    };
    for item in items {
        let (key, value) = item
            .split_once('=')
            .ok_or_else(|| format!("'{item}' is not of the form key=value"))?;
        spec.set(key, value)?;
    }
    for rule in &spec.faults {
        if rule.until <= rule.at {
            return Err("a fault's until= lies after its at=".to_owned());
        }
    }
    if spec.cache.is_some() && spec.file.is_none() {
        return Err("cache= needs file=: without one everything is lost anyway".to_owned());
    }
    Ok(spec)
}

impl ModelSpec {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "size" => self.size_bytes = Some(parse_blocks(value)?),
            "file" => self.file = Some(PathBuf::from(value)),
            "error" => self.begin_fault(FaultEffect::Error(ErrorRule::all(match value {
                "read" => FailedKind::Read,
                "write" => FailedKind::Write,
                _ => return Err(format!("error= is read or write, not '{value}'")),
            }))),
            "range" => self.last_error(key)?.range = parse_range(value)?,
            "sticky" => {
                parse_true(key, value)?;
                let rule = self.last_error(key)?;
                if rule.kind != FailedKind::Read {
                    return Err("sticky= is for error=read".to_owned());
                }
                rule.sticky = true;
            }
            "stuck" => {
                parse_true(key, value)?;
                self.begin_fault(FaultEffect::Stuck);
            }
            "dead" => {
                parse_true(key, value)?;
                self.begin_fault(FaultEffect::Dead);
            }
            "slow" => self.begin_fault(FaultEffect::SlowPermille(parse_permille(value)?)),
            "cache" if value == "volatile" => self.cache = Some(CacheSpec::default()),
            "cache" => return Err(format!("cache= is volatile or left out, not '{value}'")),
            "cache-size" => self.cache(key)?.size_bytes = parse_cache_size(value)?,
            "torn" => {
                self.cache(key)?.torn = match value {
                    "logical" => Torn::Logical,
                    "physical" => Torn::Physical,
                    _ => return Err(format!("torn= is logical or physical, not '{value}'")),
                }
            }
            "seed" => {
                let seed = value.parse();
                self.cache(key)?.seed =
                    seed.map_err(|_| format!("seed= is a number, not '{value}'"))?;
            }
            "at" => self.last_fault(key)?.at = parse_moment(value)?,
            "until" => self.last_fault(key)?.until = parse_moment(value)?,
            _ => {
                return Err(format!(
                    "there is no key '{key}'; there are size, file, error, range, sticky, \
                     stuck, dead, slow, at, until, cache, cache-size, torn and seed"
                ));
            }
        }
        Ok(())
    }

    fn begin_fault(&mut self, effect: FaultEffect) {
        self.faults.push(FaultRule {
            at: Instant::ZERO,
            until: Instant::MAX,
            effect,
        });
    }

    /// The error that a key belongs to: the fault before it.
    fn last_error(&mut self, key: &str) -> Result<&mut ErrorRule, String> {
        match self.faults.last_mut().map(|fault| &mut fault.effect) {
            Some(FaultEffect::Error(rule)) => Ok(rule),
            _ => Err(format!("{key}= comes after the error= it is for")),
        }
    }

    /// The cache that a key belongs to.
    fn cache(&mut self, key: &str) -> Result<&mut CacheSpec, String> {
        self.cache
            .as_mut()
            .ok_or_else(|| format!("{key}= comes after the cache=volatile it is for"))
    }

    /// The fault that a key of time belongs to: the one before it.
    fn last_fault(&mut self, key: &str) -> Result<&mut FaultRule, String> {
        self.faults
            .last_mut()
            .ok_or_else(|| format!("{key}= comes after the error, stuck, dead or slow it is for"))
    }
}

/// Bytes of a leg as `OFFSET+SIZE`, in whole sectors.
fn parse_range(text: &str) -> Result<Extent, String> {
    let wrong = || format!("range= is OFFSET+SIZE, as in 1m+4k, not '{text}'");
    let (offset, size) = text.split_once('+').ok_or_else(wrong)?;
    let sectors = |text| parse_size(text).map_err(|error| error.to_string());
    let (offset, size) = (sectors(offset)?, sectors(size)?);
    let is_whole = offset.is_multiple_of(SECTOR_BYTES) && size.is_multiple_of(SECTOR_BYTES);
    if !is_whole || size == 0 || offset.checked_add(size).is_none() {
        return Err(wrong());
    }
    Ok(Extent::new(offset, size))
}

fn parse_true(key: &str, value: &str) -> Result<(), String> {
    if value == "true" {
        Ok(())
    } else {
        Err(format!("{key}= is true or left out"))
    }
}

/// A factor in thousandths.
fn parse_permille(text: &str) -> Result<u64, String> {
    /// A million times slower is stuck.
    const FACTOR_MAX: f64 = 1e6;
    match text.parse::<f64>() {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        Ok(factor) if (0.001..=FACTOR_MAX).contains(&factor) => Ok((factor * 1e3 + 0.5) as u64),
        _ => Err(format!(
            "slow= is a factor from 0.001 to 1000000, not '{text}'"
        )),
    }
}

fn parse_cache_size(text: &str) -> Result<u64, String> {
    let size_bytes = parse_size(text).map_err(|error| error.to_string())?;
    if (CACHE_MIN_BYTES..=CACHE_MAX_BYTES).contains(&size_bytes) {
        Ok(size_bytes)
    } else {
        Err(format!("cache-size= is from 64k to 1g, not '{text}'"))
    }
}

fn parse_moment(text: &str) -> Result<Instant, String> {
    let ns = parse_time_ns(text).map_err(|error| error.to_string())?;
    Ok(Instant::from_ns(ns))
}

#[cfg(test)]
mod tests {
    use heliostat_model::{ErrorRule, FailedKind, FaultEffect, FaultRule, drive};
    use heliostat_types::{Duration, Extent, Instant};

    use super::{CONNECTIONS_DEFAULT, CacheSpec, LegSpec, SpecKind, Torn};

    fn kind(text: &str) -> SpecKind {
        let spec = LegSpec::parse(text).unwrap();
        assert_eq!(spec.to_string(), text);
        spec.kind
    }

    fn problem(text: &str) -> String {
        LegSpec::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn no_leg_has_a_name_of_two_lines() {
        let told = problem("/srv/a\nleg 1: b");
        assert!(told.contains("'/srv/a\\nleg 1: b' names no leg"), "{told}");
        assert!(told.contains("a line break"), "{told}");
        assert_eq!(
            kind("/srv/\u{e4} b"),
            SpecKind::Path("/srv/\u{e4} b".into())
        );
    }

    #[test]
    fn a_model_may_have_any_name_and_parameters() {
        let params = drive("net-ssd").unwrap().params;
        let spec = LegSpec::model("mine", params, ",size=1g,slow=2").unwrap();
        assert_eq!(spec.to_string(), "model:mine,size=1g,slow=2");
        let SpecKind::Model(model) = spec.kind else {
            panic!("a model");
        };
        assert_eq!(model.params, params);
        assert_eq!((model.size_bytes, model.faults.len()), (Some(1 << 30), 1));
        assert!(LegSpec::model("mine", params, ",sise=1g").is_err());
    }

    #[test]
    fn the_kinds_of_leg() {
        assert_eq!(kind("/dev/sda"), SpecKind::Path("/dev/sda".into()));
        assert_eq!(kind("./a:b"), SpecKind::Path("./a:b".into()));
        let size_bytes = 64 << 20;
        assert_eq!(kind("mem:64m"), SpecKind::Memory { size_bytes });
        let SpecKind::Model(model) = kind("model:ram,size=1g,file=/tmp/x") else {
            panic!("a model");
        };
        assert_eq!(model.params, drive("ram").unwrap().params);
        assert_eq!(model.size_bytes, Some(1 << 30));
        assert_eq!(model.file, Some("/tmp/x".into()));
        let SpecKind::Nbd(nbd) = kind("nbd+unix:///a?x-connections=2&socket=b") else {
            panic!("an export");
        };
        assert_eq!(nbd.uri.to_string(), "nbd+unix:///a?socket=b");
        assert_eq!(nbd.connections, 2);
        let SpecKind::Nbd(nbd) = kind("nbd://host:1/a") else {
            panic!("an export");
        };
        assert_eq!(nbd.uri.to_string(), "nbd://host:1/a");
        assert_eq!(nbd.connections, CONNECTIONS_DEFAULT);
    }

    #[test]
    fn faults_take_the_times_that_follow_them() {
        let SpecKind::Model(model) = kind("model:ram,error=read,at=2s,until=4s,slow=2.5,dead=true")
        else {
            panic!("a model");
        };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let rule = |at, until, effect| FaultRule { at, until, effect };
        assert_eq!(
            model.faults,
            [
                rule(
                    at(2),
                    at(4),
                    FaultEffect::Error(ErrorRule::all(FailedKind::Read))
                ),
                rule(at(0), Instant::MAX, FaultEffect::SlowPermille(2500)),
                rule(at(0), Instant::MAX, FaultEffect::Dead),
            ]
        );
    }

    #[test]
    fn errors_take_the_range_that_follows_them() {
        let text = "model:ram,error=write,range=1m+4k,error=read,range=8k+512,sticky=true";
        let SpecKind::Model(model) = kind(text) else {
            panic!("a model");
        };
        let rules = model.faults.iter().map(|rule| {
            let FaultEffect::Error(rule) = rule.effect else {
                panic!("errors alone");
            };
            (rule.kind, rule.range, rule.sticky)
        });
        let expected = [
            (FailedKind::Write, Extent::new(1 << 20, 4096), false),
            (FailedKind::Read, Extent::new(8192, 512), true),
        ];
        assert_eq!(rules.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn caches_have_a_size_a_unit_and_a_seed() {
        let cache = |text| {
            let SpecKind::Model(model) = kind(text) else {
                panic!("a model");
            };
            model.cache
        };
        assert_eq!(cache("model:ram,file=/x"), None);
        assert_eq!(
            cache("model:ram,file=/x,cache=volatile"),
            Some(CacheSpec::default())
        );
        assert_eq!(
            cache("model:ram,cache=volatile,cache-size=1m,torn=physical,seed=7,file=/x"),
            Some(CacheSpec {
                size_bytes: 1 << 20,
                torn: Torn::Physical,
                seed: 7,
            })
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, told) in [
            (
                "disk.img",
                "'disk.img' names no leg: a path has a '/' in it, as in ./disk.img",
            ),
            ("nbds://host/x?tls-type=x509", "asks for TLS, which is not"),
            ("nbd+unix:///x", "a unix socket needs a path"),
            ("nbd://me@host/x", "means nothing without TLS"),
            ("nbd://host/x?y=1", "parameter 'y' is not known"),
            ("nbd://host/x?x-y=1", "there is no parameter 'x-y'"),
            ("nbd://host/x?x-connections=0", "from 1 to 16, not '0'"),
            ("disk:1", "mem:SIZE, model:NAME and URIs of NBD"),
            ("mem:", "is not a size"),
            ("mem:0", "multiple of 512"),
            ("mem:1000", "multiple of 512"),
            (
                "model:tape",
                "there is no model 'tape'; there are hdd-7200-2tb, ",
            ),
            ("model:ram,size", "'size' is not of the form key=value"),
            ("model:ram,colour=red", "there is no key 'colour'"),
            ("model:ram,at=1s", "at= comes after"),
            ("model:ram,dead=false", "dead= is true or left out"),
            ("model:ram,error=both", "error= is read or write"),
            ("model:ram,slow=2,range=1m+4k", "after the error="),
            ("model:ram,error=read,range=4k", "OFFSET+SIZE"),
            ("model:ram,error=read,range=1m+7", "OFFSET+SIZE"),
            ("model:ram,error=write,sticky=true", "for error=read"),
            ("model:ram,slow=0", "slow= is a factor"),
            ("model:ram,cache=volatile", "cache= needs file="),
            ("model:ram,cache=none", "cache= is volatile or left out"),
            ("model:ram,seed=1", "seed= comes after the cache=volatile"),
            ("model:ram,cache=volatile,seed=x", "seed= is a number"),
            ("model:ram,cache=volatile,torn=page", "torn= is logical or"),
            (
                "model:ram,cache=volatile,cache-size=1k",
                "cache-size= is from 64k to 1g, not '1k'",
            ),
            ("model:ram,stuck=true,at=2s,until=1s", "until= lies after"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(told), "{text}: {problem}");
        }
    }
}
