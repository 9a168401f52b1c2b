//! Compression of what is stored in files, with bounds that hold whatever a file says.

use std::io::Read as _;

/// Most bytes that a stored byte may stand for; the writer keeps what shrinks more as it is.
pub const MAX_RATIO: u64 = 4096;
/// Less than this is kept as it is.
const WORTH_COMPRESSING: usize = 128;
/// Level of zstd: beyond it writing gets slower and files hardly shorter.
const LEVEL: i32 = 3;
/// Largest window that a frame may ask memory for, as a power of two. Level 3 takes 2^21.
const WINDOW_LOG_MAX: u32 = 23;

/// How bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// As they are.
    Plain,
    /// As one zstd frame.
    Zstd,
}

impl Codec {
    /// Both; the number in a file is the index.
    pub const ALL: [Codec; 2] = [Codec::Plain, Codec::Zstd];

    /// Name in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Plain => "plain",
            Codec::Zstd => "zstd",
        }
    }

    /// Most bytes that so many stored bytes may decode to.
    pub fn most(self, stored: u64) -> u64 {
        match self {
            Codec::Plain => stored,
            Codec::Zstd => stored.saturating_mul(MAX_RATIO),
        }
    }
}

/// Stored bytes that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Another number of bytes than announced.
    #[error("decodes to {found} bytes, expected {expected}")]
    Length {
        /// The number, or `more`.
        found: String,
        /// Announced.
        expected: u64,
    },
    /// Bytes behind the frame.
    #[error("{0} bytes follow the zstd frame, expected none")]
    Trailing(usize),
    /// Not a frame.
    #[error("zstd: {0}")]
    Zstd(String),
}

/// Decodes to exactly `bytes` bytes, a number that the caller has bounded. Memory grows with what
/// is really there.
///
/// # Errors
/// The stored bytes are not one frame of so many bytes and nothing else.
pub fn decompress(codec: Codec, stored: &[u8], bytes: u64) -> Result<Vec<u8>, CodecError> {
    let length = |found: String| CodecError::Length {
        found,
        expected: bytes,
    };
    if codec == Codec::Plain {
        return match stored.len() as u64 == bytes {
            true => Ok(stored.to_vec()),
            false => Err(length(stored.len().to_string())),
        };
    }
    let failed = |e: std::io::Error| CodecError::Zstd(e.to_string());
    let decoder = zstd::stream::read::Decoder::with_buffer(stored).map_err(failed)?;
    let mut decoder = decoder.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(failed)?;
    let mut out = Vec::new();
    // One byte beyond what is announced shows that there is more.
    let mut limited = decoder.by_ref().take(bytes.saturating_add(1));
    limited.read_to_end(&mut out).map_err(failed)?;
    match out.len() as u64 {
        n if n > bytes => Err(length("more".to_owned())),
        n if n < bytes => Err(length(n.to_string())),
        _ => match decoder.finish().len() {
            0 => Ok(out),
            rest => Err(CodecError::Trailing(rest)),
        },
    }
}

/// The shorter form of bytes.
///
/// # Errors
/// zstd has no memory.
pub fn compress(bytes: &[u8]) -> std::io::Result<(Codec, Vec<u8>)> {
    if bytes.len() < WORTH_COMPRESSING {
        return Ok((Codec::Plain, bytes.to_vec()));
    }
    let packed = zstd::bulk::compress(bytes, LEVEL)?;
    let allowed = bytes.len() as u64 <= Codec::Zstd.most(packed.len() as u64);
    match packed.len() < bytes.len() && allowed {
        true => Ok((Codec::Zstd, packed)),
        false => Ok((Codec::Plain, bytes.to_vec())),
    }
}
