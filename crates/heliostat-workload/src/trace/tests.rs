use std::io::Cursor;

use heliostat_types::{Duration, Extent, OpKind};

use super::{TraceOp, TraceOptions, TraceReader, TraceTime, write_iolog};

const OPTIONS: TraceOptions = TraceOptions {
    format: None,
    speed: 1.0,
    volume: None,
    time: TraceTime::Microseconds,
};

fn read(text: &str, options: TraceOptions) -> Result<Vec<TraceOp>, String> {
    let lines = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let mut reader = TraceReader::new("t", lines, options);
    let mut ops = Vec::new();
    while let Some(op) = reader.next_op().map_err(|error| error.to_string())? {
        ops.push(op);
    }
    Ok(ops)
}

fn op(us: u64, kind: OpKind, offset: u64, len: u64) -> TraceOp {
    TraceOp {
        at: Duration::from_us(us),
        kind,
        extent: Extent::new(offset, len),
    }
}

#[test]
fn every_format_is_known_by_its_first_line() {
    let (read_kind, write_kind, flush) = (OpKind::Read, OpKind::Write, OpKind::Flush);
    for (text, wanted) in [
        (
            "fio version 2 iolog\nf add\nf open\nf read 4096 512\nf wait 250\nf write 0 1000\n\
             f sync 0 0\nf close\n",
            vec![
                op(0, read_kind, 4096, 512),
                op(250, write_kind, 0, 1024),
                op(250, flush, 0, 0),
            ],
        ),
        (
            "fio version 3 iolog\n16 f add\n150 f read 61440 4096\n90 f datasync 0 0\n",
            vec![op(150, read_kind, 61440, 4096), op(150, flush, 0, 0)],
        ),
        (
            "1538323200,8,16,0,7\n1538323202,0,1,1,9\n",
            vec![
                op(0, read_kind, 4096, 8192),
                op(2_000_000, write_kind, 0, 512),
            ],
        ),
        (
            "419,W,8192,4096,1577808000000046\n725,R,100,1,1577808000000096\n",
            vec![op(0, write_kind, 8192, 4096), op(50, read_kind, 0, 512)],
        ),
    ] {
        assert_eq!(read(text, OPTIONS), Ok(wanted), "{text}");
    }
}

#[test]
fn a_trace_is_filtered_and_played_faster() {
    let text = "1,0,8,0,7\n2,0,8,0,9\n4,8,8,1,7\n5,0,0,0,7\n";
    let options = TraceOptions {
        speed: 2.0,
        volume: Some(7),
        ..OPTIONS
    };
    let wanted = vec![
        op(0, OpKind::Read, 0, 4096),
        op(1_500_000, OpKind::Write, 4096, 4096),
    ];
    assert_eq!(read(text, options), Ok(wanted));
    let options = TraceOptions {
        time: TraceTime::Milliseconds,
        ..OPTIONS
    };
    let text = "fio version 3 iolog\n3 f read 0 512\n";
    assert_eq!(
        read(text, options),
        Ok(vec![op(3_000, OpKind::Read, 0, 512)])
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let told = |text: &str| read(text, OPTIONS).unwrap_err();
    let iolog = |text: &str| told(&format!("fio version 3 iolog\n{text}\n"));
    assert!(
        told("hello\n").starts_with("trace 't', line 1: 'hello' begins no trace that is known")
    );
    assert_eq!(
        iolog("x f read 0 512"),
        "trace 't', line 2: time 'x' is not a whole number; expected TIME FILE ACTION [OFFSET \
         LENGTH]"
    );
    assert_eq!(
        iolog("5 f wait 3"),
        "trace 't', line 2: there is no 'wait' in an iolog of version 3"
    );
    assert_eq!(
        iolog("5 f read 0 67108864"),
        "trace 't', line 2: a request of 67108864 bytes; an array takes 32 MiB at most"
    );
    assert_eq!(
        iolog("5 f read 18446744073709551615 5"),
        "trace 't', line 2: it ends beyond 2^64"
    );
    assert_eq!(
        told("1,2,3,0,5\n1,2,3,2,5\n"),
        "trace 't', line 2: IOType '2' is neither 0 (read) nor 1 (write)"
    );
    assert!(told(&"1".repeat(5_000)).contains("longer than 4096 bytes"));
}

#[test]
fn what_is_written_is_read_again() {
    let ops = vec![
        op(5, OpKind::Read, 4096, 8192),
        op(7, OpKind::Write, 0, 512),
        op(7, OpKind::Flush, 0, 0),
        op(9, OpKind::Trim, 512, 512),
    ];
    let mut text = Vec::new();
    assert_eq!(write_iolog(&mut text, "/dev/nbd0", ops.clone()).unwrap(), 4);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().nth(3), Some("5 /dev/nbd0 read 4096 8192"));
    assert_eq!(read(&text, OPTIONS), Ok(ops));
}
