//! The client's side of the negotiation: fixed newstyle, structured replies where wanted, GO.

use std::io;

use super::{ClientError, ExportDetails, Stream};
use heliostat_nbd::codec::{
    Fields, GREETING_BYTES, GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_HEADER_BYTES, OptionHeader,
    OptionReplyHeader, handshake, info, option, option_reply,
};

/// The longest reply to an option that is read: a string and a few numbers.
const REPLY_BYTES_MAX: u32 = 64 << 10;

/// Negotiates; says what the export is, and whether replies will be structured.
pub(super) fn negotiate(
    stream: &mut Stream,
    export: &str,
    structured: bool,
) -> Result<(ExportDetails, bool), ClientError> {
    let mut greeting = [0; GREETING_BYTES];
    receive(stream, &mut greeting)?;
    let mut fields = Fields(&greeting);
    let magic = (fields.u64(), fields.u64());
    let flags = fields.u16().unwrap_or(0);
    if magic != (Some(GREETING_MAGIC), Some(OPTION_MAGIC)) || flags & handshake::FIXED_NEWSTYLE == 0
    {
        return Err(ClientError::Protocol("it does not speak fixed newstyle"));
    }
    let flags = flags & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    let mut output = u32::from(flags).to_be_bytes().to_vec();
    let mut is_structured = false;
    if structured {
        send_option(stream, &mut output, option::STRUCTURED_REPLY, &[])?;
        is_structured = match receive_reply(stream, option::STRUCTURED_REPLY)? {
            (option_reply::ACK, _) => true,
            (option_reply::ERR_UNSUP, _) => false,
            (kind, data) => return Err(refused(option::STRUCTURED_REPLY, kind, &data)),
        };
    }
    let name_len = u32::try_from(export.len())
        .map_err(|_| ClientError::Protocol("the export's name is too long"))?;
    let mut data = name_len.to_be_bytes().to_vec();
    data.extend_from_slice(export.as_bytes());
    data.extend_from_slice(&1_u16.to_be_bytes());
    data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
    send_option(stream, &mut output, option::GO, &data)?;
    let mut details = ExportDetails::default();
    loop {
        match receive_reply(stream, option::GO)? {
            (option_reply::ACK, _) => return Ok((details, is_structured)),
            (option_reply::INFO, data) => note_info(&mut details, &data)
                .ok_or(ClientError::Protocol("a description is malformed"))?,
            (kind, data) => return Err(refused(option::GO, kind, &data)),
        }
    }
}

fn note_info(details: &mut ExportDetails, data: &[u8]) -> Option<()> {
    let mut fields = Fields(data);
    match fields.u16()? {
        info::EXPORT => {
            details.size_bytes = fields.u64()?;
            details.flags = fields.u16()?;
        }
        info::BLOCK_SIZE => {
            details.block_sizes = Some([fields.u32()?, fields.u32()?, fields.u32()?]);
        }
        _ => {}
    }
    Some(())
}

fn send_option(
    stream: &mut Stream,
    output: &mut Vec<u8>,
    option: u32,
    data: &[u8],
) -> io::Result<()> {
    let header = OptionHeader {
        option,
        len_bytes: u32::try_from(data.len()).map_err(io::Error::other)?,
    };
    header.write(output);
    output.extend_from_slice(data);
    let mut sent = 0;
    while sent < output.len() {
        sent += stream.send(&output[sent..])?;
    }
    output.clear();
    Ok(())
}

fn receive_reply(stream: &mut Stream, option: u32) -> Result<(u32, Vec<u8>), ClientError> {
    let mut bytes = [0; OPTION_REPLY_HEADER_BYTES];
    receive(stream, &mut bytes)?;
    let header = OptionReplyHeader::parse(&bytes)
        .filter(|header| header.option == option && header.len_bytes <= REPLY_BYTES_MAX)
        .ok_or(ClientError::Protocol("a reply to an option is malformed"))?;
    let mut data = vec![0; super::as_index(header.len_bytes)];
    receive(stream, &mut data)?;
    Ok((header.kind, data))
}

fn receive(stream: &mut Stream, bytes: &mut [u8]) -> Result<(), ClientError> {
    let mut at = 0;
    while at < bytes.len() {
        match stream.recv(&mut bytes[at..])? {
            0 => return Err(ClientError::Closed),
            received => at += received,
        }
    }
    Ok(())
}

fn refused(option: u32, kind: u32, data: &[u8]) -> ClientError {
    ClientError::Refused {
        option,
        kind,
        message: String::from_utf8_lossy(data).into_owned(),
    }
}
