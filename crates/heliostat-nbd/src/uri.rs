//! Where an export is found: the URIs of the command line.
//!
//! The network forms are those of the NBD project's `uri.md`, without TLS. Two more say where a
//! server gets its sockets from: `fd:` (inherited, `LISTEN_FDS`) and `stdio:` (one client, already
//! connected). What is not understood is an error, never ignored.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::str::FromStr;

use crate::codec::{DEFAULT_PORT, STRING_BYTES_MAX};

/// How a socket is come by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// A unix socket at this path.
    Unix(PathBuf),
    /// A TCP socket.
    Tcp {
        /// A name or an address; IPv6 without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// Listening sockets that whoever started us passed on (`LISTEN_FDS`).
    Inherited,
    /// Standard input, which is a connected socket, or standard input and output as a pair.
    Stdio,
}

/// An export at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportUri {
    /// Where.
    pub endpoint: Endpoint,
    /// Its name there; empty for the default export.
    pub export: String,
}

/// Why a text is not the URI of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriError {
    /// It begins with none of the schemes.
    UnknownScheme(String),
    /// TLS was asked for.
    Tls(String),
    /// Somebody's name before the host.
    UserInfo(String),
    /// `nbd+unix` without a path.
    SocketMissing,
    /// `nbd+unix` with a host.
    HostOfUnixSocket(String),
    /// Not two slashes where they belong.
    SlashesMissing(String),
    /// A port that is no number from 1 to 65535.
    BadPort(String),
    /// A `%` without two hexadecimal digits, or what it makes is not UTF-8.
    BadEscape(String),
    /// A parameter that means nothing here.
    UnknownParameter(String),
    /// A parameter given twice.
    RepeatedParameter(String),
    /// A name longer than the protocol allows, or with a NUL in it.
    BadName,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownScheme(text) => {
                write!(f, "'{text}' is not nbd+unix:, nbd:, fd: or stdio:")
            }
            Self::Tls(text) => write!(
                f,
                "'{text}' asks for TLS, which is not supported: use nbd: or nbd+unix:"
            ),
            Self::UserInfo(host) => write!(
                f,
                "'{host}' has a name before the host, which means nothing without TLS: leave it out"
            ),
            Self::SocketMissing => {
                f.write_str("a unix socket needs a path: nbd+unix:///EXPORT?socket=PATH")
            }
            Self::HostOfUnixSocket(host) => write!(
                f,
                "nbd+unix: has no host (found '{host}'): write three slashes, nbd+unix:///EXPORT"
            ),
            Self::SlashesMissing(text) => {
                write!(f, "'{text}' lacks the two slashes after the scheme")
            }
            Self::BadPort(port) => write!(f, "'{port}' is not a port"),
            Self::BadEscape(text) => write!(f, "'{text}' is not well percent-encoded"),
            Self::UnknownParameter(key) => write!(
                f,
                "parameter '{key}' is not known (only socket=PATH is, with nbd+unix:)"
            ),
            Self::RepeatedParameter(key) => write!(f, "parameter '{key}' is given twice"),
            Self::BadName => f.write_str("an export name has at most 4096 bytes and no NUL"),
        }
    }
}

impl std::error::Error for UriError {}

impl FromStr for ExportUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let unknown = || UriError::UnknownScheme(text.to_owned());
        let (scheme, rest) = text.split_once(':').ok_or_else(unknown)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        // First, since its parameters are not known here either.
        if ["nbds", "nbds+unix"].contains(&scheme) {
            return Err(UriError::Tls(text.to_owned()));
        }
        let socket = parse_query(query, scheme == "nbd+unix")?;
        let (endpoint, name) = match scheme {
            "fd" => (Endpoint::Inherited, rest),
            "stdio" => (Endpoint::Stdio, rest),
            "nbd+unix" => {
                let (host, name) = split_authority(text, rest)?;
                if !host.is_empty() {
                    return Err(UriError::HostOfUnixSocket(host.to_owned()));
                }
                let path = socket.filter(|path| !path.is_empty());
                let path = path.ok_or(UriError::SocketMissing)?;
                (Endpoint::Unix(PathBuf::from(path)), name)
            }
            "nbd" => {
                let (authority, name) = split_authority(text, rest)?;
                (parse_host(authority)?, name)
            }
            _ => return Err(unknown()),
        };
        let export = decode(name.strip_prefix('/').unwrap_or(name))?;
        if export.len() > STRING_BYTES_MAX || export.contains('\0') {
            return Err(UriError::BadName);
        }
        Ok(Self { endpoint, export })
    }
}

impl fmt::Display for ExportUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = encode(&self.export);
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let path = encode(&path.to_string_lossy());
                write!(f, "nbd+unix:///{name}?socket={path}")
            }
            Endpoint::Tcp { host, port } => {
                if host.contains(':') {
                    write!(f, "nbd://[{host}]")?;
                } else {
                    write!(f, "nbd://{host}")?;
                }
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{name}")
            }
            Endpoint::Inherited => write!(f, "fd:{name}"),
            Endpoint::Stdio => write!(f, "stdio:{name}"),
        }
    }
}

/// Authority and path of what follows the scheme.
fn split_authority<'a>(text: &str, rest: &'a str) -> Result<(&'a str, &'a str), UriError> {
    let rest = rest
        .strip_prefix("//")
        .ok_or_else(|| UriError::SlashesMissing(text.to_owned()))?;
    Ok(rest.split_at(rest.find('/').unwrap_or(rest.len())))
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`; no host is this machine.
fn parse_host(authority: &str) -> Result<Endpoint, UriError> {
    if authority.contains('@') {
        return Err(UriError::UserInfo(authority.to_owned()));
    }
    let bracketed = authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| UriError::BadPort(port.to_owned()))?,
    };
    let host = match host {
        "" => "localhost".to_owned(),
        host => decode(host)?,
    };
    Ok(Endpoint::Tcp { host, port })
}

/// The socket parameter, where it is allowed and given.
fn parse_query(query: Option<&str>, takes_socket: bool) -> Result<Option<String>, UriError> {
    let mut socket = None;
    for item in query
        .unwrap_or("")
        .split('&')
        .filter(|item| !item.is_empty())
    {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        if key != "socket" || !takes_socket {
            return Err(UriError::UnknownParameter(key.to_owned()));
        }
        if socket.replace(decode(value)?).is_some() {
            return Err(UriError::RepeatedParameter(key.to_owned()));
        }
    }
    Ok(socket)
}

fn decode(text: &str) -> Result<String, UriError> {
    let bad = || UriError::BadEscape(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
        bytes.push(u8::try_from(16 * high + low).expect("two hexadecimal digits make a byte"));
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Escapes what would be read as something else, and what is not printable.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:@!$'()*+,;=".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes any text");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, ExportUri, UriError};

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn uris_are_understood_and_written_back() {
        let unix = |path: &str| Endpoint::Unix(path.into());
        for (text, endpoint, export, shown) in [
            (
                "nbd+unix:///disk?socket=/run/a.sock",
                unix("/run/a.sock"),
                "disk",
                None,
            ),
            ("nbd+unix:///?socket=a.sock", unix("a.sock"), "", None),
            (
                "nbd+unix://?socket=a%20b",
                unix("a b"),
                "",
                Some("nbd+unix:///?socket=a%20b"),
            ),
            ("nbd://host:1234/a/b", tcp("host", 1234), "a/b", None),
            ("nbd://host/%3Fx%25", tcp("host", 10_809), "?x%", None),
            ("nbd://host", tcp("host", 10_809), "", Some("nbd://host/")),
            (
                "nbd:///x",
                tcp("localhost", 10_809),
                "x",
                Some("nbd://localhost/x"),
            ),
            ("nbd://[::1]:7/x", tcp("::1", 7), "x", None),
            ("nbd://[::1]/x", tcp("::1", 10_809), "x", None),
            ("fd:", Endpoint::Inherited, "", None),
            ("fd:disk", Endpoint::Inherited, "disk", None),
            ("stdio:", Endpoint::Stdio, "", None),
        ] {
            let uri: ExportUri = text.parse().unwrap();
            assert_eq!(uri.endpoint, endpoint, "{text}");
            assert_eq!(uri.export, export, "{text}");
            assert_eq!(uri.to_string(), shown.unwrap_or(text));
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (text, error) in [
            ("disk", UriError::UnknownScheme("disk".to_owned())),
            ("http://x/", UriError::UnknownScheme("http://x/".to_owned())),
            ("nbds://x/", UriError::Tls("nbds://x/".to_owned())),
            (
                "nbds://x/?tls-type=psk",
                UriError::Tls("nbds://x/?tls-type=psk".to_owned()),
            ),
            ("nbd://me@x/", UriError::UserInfo("me@x".to_owned())),
            ("nbd+unix:///x", UriError::SocketMissing),
            ("nbd+unix:///x?socket=", UriError::SocketMissing),
            (
                "nbd+unix://h/x?socket=a",
                UriError::HostOfUnixSocket("h".to_owned()),
            ),
            ("nbd:x", UriError::SlashesMissing("nbd:x".to_owned())),
            ("nbd://h:0/", UriError::BadPort("0".to_owned())),
            ("nbd://h:70000/", UriError::BadPort("70000".to_owned())),
            ("nbd://h/%4", UriError::BadEscape("%4".to_owned())),
            ("nbd://h/%ff", UriError::BadEscape("%ff".to_owned())),
            (
                "nbd://h/x?socket=a",
                UriError::UnknownParameter("socket".to_owned()),
            ),
            (
                "nbd://h/x?tls-type=psk",
                UriError::UnknownParameter("tls-type".to_owned()),
            ),
            (
                "nbd+unix:///x?socket=a&socket=b",
                UriError::RepeatedParameter("socket".to_owned()),
            ),
            ("nbd://h/%00", UriError::BadName),
        ] {
            assert_eq!(text.parse::<ExportUri>(), Err(error), "{text}");
        }
    }
}
