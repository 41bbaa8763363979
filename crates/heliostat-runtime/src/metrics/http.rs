//! As much of HTTP/1 as serving one page needs: what was asked for, and the bytes of the answer.
//!
//! No socket here. One request is answered on a connection, which is closed then.

use super::text::Format;

/// The longest head of a request. Prometheus sends some 300 bytes; browsers with cookies a few
/// thousand.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;

/// Where the page is.
const PATH: &str = "/metrics";

/// What OpenMetrics is called.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) what: What,
    /// Whether all but the head of the answer is left out.
    pub(super) is_head_only: bool,
}

/// What is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The page, in this format.
    Page(Format),
    /// There is no such page.
    NotFound,
    /// Only GET and HEAD make sense.
    NotAllowed,
    /// That is not HTTP.
    Nonsense,
    /// The head is too long.
    TooLong,
}

impl What {
    const fn alone(self) -> Asked {
        Asked {
            what: self,
            is_head_only: false,
        }
    }
}

/// What the bytes that have come ask for; `None` where the head is not complete.
pub(super) fn asked(bytes: &[u8]) -> Option<Asked> {
    let end = end_of_head(bytes);
    if end.is_none() && bytes.len() < HEAD_BYTES_MAX {
        return None;
    }
    let Some(end) = end.filter(|end| *end <= HEAD_BYTES_MAX) else {
        return Some(What::TooLong.alone());
    };
    let head = std::str::from_utf8(&bytes[..end]).ok();
    let asked = head.and_then(asked_by_head);
    Some(asked.unwrap_or(What::Nonsense.alone()))
}

/// Where the first empty line ends.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut line_begins = 0;
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if matches!(&bytes[line_begins..at], b"" | b"\r") && line_begins > 0 {
            return Some(at + 1);
        }
        line_begins = at + 1;
    }
    None
}

fn asked_by_head(head: &str) -> Option<Asked> {
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return None;
    }
    let is_head_only = match method {
        "GET" => false,
        "HEAD" => true,
        "" => return None,
        _ => return Some(What::NotAllowed.alone()),
    };
    // What proxies are sent has the host as well.
    let path = target.strip_prefix("http://").map_or(target, |rest| {
        rest.find('/').map_or("/", |begins| &rest[begins..])
    });
    let path = path.split(['?', '#']).next()?;
    let what = if path == PATH {
        What::Page(format_of(lines))
    } else if path.starts_with('/') {
        What::NotFound
    } else {
        return None;
    };
    Some(Asked { what, is_head_only })
}

/// OpenMetrics where a header `Accept` names it, and does not like the other format better.
fn format_of<'a>(headers: impl Iterator<Item = &'a str>) -> Format {
    let mut wanted = [0; 2];
    let accepted = headers.filter_map(|header| {
        let (name, value) = header.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then_some(value)
    });
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut words = range.split(';').map(str::trim);
        let kind = words.next().unwrap_or("");
        let mut likes = 1000;
        let mut is_ours = true;
        for parameter in words {
            match parameter.split_once('=') {
                Some(("q", value)) => likes = thousandths(value),
                Some(("version", version)) if kind.eq_ignore_ascii_case(OPEN_METRICS) => {
                    is_ours = version.trim_matches('"') == "1.0.0";
                }
                _ => {}
            }
        }
        let place = usize::from(kind.eq_ignore_ascii_case(OPEN_METRICS));
        if is_ours && (place == 1 || kind.eq_ignore_ascii_case("text/plain")) {
            wanted[place] = wanted[place].max(likes);
        }
    }
    match wanted {
        [plain, open] if open > 0 && open >= plain => Format::OpenMetrics,
        _ => Format::Prometheus,
    }
}

/// A number from 0 to 1 with up to three digits; 0 where it is none.
fn thousandths(text: &str) -> u32 {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let digits = digits.get(..3).unwrap_or(digits);
    match (whole, format!("{digits:0<3}").parse()) {
        ("1", _) => 1000,
        ("0" | "", Ok(likes)) => likes,
        _ => 0,
    }
}

/// The answer to somebody who asked for that, with the page or why there is none.
pub(super) fn answer(asked: Asked, page: impl FnOnce(Format) -> Result<String, String>) -> Vec<u8> {
    let text = |text: &str| text.to_owned() + "\n";
    let (status, body) = match asked.what {
        What::Page(format) => match page(format) {
            Ok(page) => return response("200 OK", format.content_type(), &page, asked),
            Err(why) => ("503 Service Unavailable", text(&why)),
        },
        What::NotFound => ("404 Not Found", text("metrics are at /metrics")),
        What::NotAllowed => (
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            text("only GET and HEAD make sense here"),
        ),
        What::Nonsense => ("400 Bad Request", text("this is no request of HTTP/1")),
        What::TooLong => (
            "431 Request Header Fields Too Large",
            text("the head of the request is longer than 8 KiB"),
        ),
    };
    response(status, "text/plain; charset=utf-8", &body, asked)
}

fn response(status: &str, kind: &str, body: &str, asked: Asked) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: \
         no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    let body = if asked.is_head_only { "" } else { body };
    (head + body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Asked, Format, HEAD_BYTES_MAX, What, answer, asked};

    fn what(head: &str) -> Option<What> {
        asked(head.as_bytes()).map(|asked| asked.what)
    }

    fn accepting(accept: &str) -> Option<What> {
        what(&format!(
            "GET /metrics HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\n\r\n"
        ))
    }

    #[test]
    fn requests() {
        let plain = Some(What::Page(Format::Prometheus));
        assert_eq!(what("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), plain);
        assert_eq!(what("GET /metrics?a=b HTTP/1.0\n\n"), plain);
        assert_eq!(what("GET http://a:1/metrics HTTP/1.1\r\n\r\n"), plain);
        for other in ["/", "/metrics/", "/../metrics", "http://a", "/metricsx"] {
            let head = format!("GET {other} HTTP/1.1\r\n\r\n");
            assert_eq!(what(&head), Some(What::NotFound), "{other}");
        }
        for method in ["POST", "PUT", "get", "CONNECT", "\u{e4}"] {
            let head = format!("{method} /metrics HTTP/1.1\r\n\r\n");
            assert_eq!(what(&head), Some(What::NotAllowed), "{method}");
        }
        let head = asked(b"HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
        assert!(head.is_head_only);
    }

    #[test]
    fn what_is_no_request() {
        for nonsense in [
            "\0\0\0\n\n",
            "GET\r\n\r\n",
            "GET /metrics\r\n\r\n",
            "GET /metrics HTTP/2.0\r\n\r\n",
            "GET  /metrics HTTP/1.1\r\n\r\n",
            "GET metrics HTTP/1.1\r\n\r\n",
            "\u{16}\u{3}\u{1} a\n\r\n",
        ] {
            assert_eq!(what(nonsense), Some(What::Nonsense), "{nonsense:?}");
        }
        let no_text = b"GET /\xff HTTP/1.1\r\n\r\n";
        assert_eq!(asked(no_text), Some(What::Nonsense.alone()));
        for half in [
            "",
            "\r\n",
            "\n",
            "GET /metrics HTTP/1.1\r\n",
            "GET /metrics HT",
        ] {
            assert_eq!(what(half), None, "{half:?}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\na: {}", "b".repeat(HEAD_BYTES_MAX));
        assert_eq!(what(&long), Some(What::TooLong));
        assert_eq!(what(&(long + "\r\n\r\n")), Some(What::TooLong));
        let lines = "\r\n".repeat(HEAD_BYTES_MAX);
        assert_eq!(what(&lines), Some(What::Nonsense));
    }

    #[test]
    fn every_beginning_of_a_request_is_waited_for() {
        let head = "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        for len in 0..head.len() {
            assert_eq!(what(&head[..len]), None, "{len}");
        }
    }

    #[test]
    fn the_format_is_what_is_accepted() {
        let open = Some(What::Page(Format::OpenMetrics));
        let plain = Some(What::Page(Format::Prometheus));
        // Prometheus 2.42.
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in [
            prometheus,
            "application/openmetrics-text",
            "text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0; q=0.6",
        ] {
            assert_eq!(accepting(accept), open, "{accept}");
        }
        for accept in [
            "*/*",
            "",
            ";;;,,,==",
            "text/html",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.1,text/plain;q=0.9",
            "application/openmetrics-text;q=nonsense",
        ] {
            assert_eq!(accepting(accept), plain, "{accept}");
        }
    }

    #[test]
    fn answers() {
        let said = |what, is_head_only, page: Result<&str, &str>| {
            let asked = Asked { what, is_head_only };
            let page = page.map(str::to_owned).map_err(str::to_owned);
            String::from_utf8(answer(asked, |_| page)).unwrap()
        };
        let page = What::Page(Format::OpenMetrics);
        let whole = said(page, false, Ok("# EOF\n"));
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
        assert!(whole.contains("\r\nContent-Length: 6\r\n"));
        assert!(whole.ends_with("\r\n\r\n# EOF\n"));
        let head = said(page, true, Ok("# EOF\n"));
        assert_eq!(head, whole.strip_suffix("# EOF\n").unwrap());
        let busy = said(page, false, Err("too busy"));
        assert!(busy.starts_with("HTTP/1.1 503 ") && busy.ends_with("too busy\n"));
        let refused = said(What::NotAllowed, false, Err(""));
        assert!(refused.contains("\r\nAllow: GET, HEAD\r\n"));
        let nowhere = said(What::NotFound, false, Err(""));
        assert!(nowhere.ends_with("metrics are at /metrics\n"));
    }
}
