//! The file: a header of fixed size, then the sections one after the other, without gaps.
//!
//! | offset | bytes | field (integers little endian) |
//! |---|---|---|
//! | 0 | 8 | magic `IPUEXE\r\n` |
//! | 8 | 4 | format version |
//! | 12 | 4 | number of sections |
//! | 16 | 8 | bytes of the file |
//! | 24 | 32 | SHA-256 of the file with this field and the header's checksum zero |
//! | 56 | 16 | target name, padded with zeros |
//! | 72 | 24 | version of the tools, padded with zeros |
//! | 96 | 4 | CRC-32 of the header with this field zero |
//! | 100 | 40 each | sections: kind (4), codec (4), CRC-32 of the stored bytes (4), zero (4), offset (8), stored bytes (8), bytes when decoded (8) |
//!
//! Sections, in this order: `provenance`, `metadata` and `images` in postcard, `blobs`: their
//! number, the length of each (4 bytes each), then their bytes, and `symbols` and `description` in
//! postcard. The struct of a postcard section is part of the format: whoever changes one increments
//! [`FORMAT_VERSION`]. Codec 0 is the bytes themselves, codec 1 is one zstd frame, which the writer
//! takes where it is shorter. A reader knows from the table how much it will decode and refuses more
//! than [`Section::limit`] or than [`codec::MAX_RATIO`] times the stored bytes before it decodes anything.

use super::codec::{self, Codec, CodecError};
use super::error::value;
use super::{Description, Images, Metadata, Package, PackageError, Provenance, Symbol, TileImage};
use ipu_target::Target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Version of the file format and of the host protocol.
pub const FORMAT_VERSION: u32 = 5;
/// First bytes of the file; the line end shows text conversions.
pub const MAGIC: &[u8; 8] = b"IPUEXE\r\n";

const VERSION: Range<usize> = 8..12;
const COUNT: Range<usize> = 12..16;
const LENGTH: Range<usize> = 16..24;
const DIGEST: Range<usize> = 24..56;
const TARGET: Range<usize> = 56..72;
const TOOL: Range<usize> = 72..96;
const CRC: Range<usize> = 96..100;
const TABLE: usize = 100;
const ENTRY: usize = 40;
const HEADER: usize = TABLE + ENTRY * Section::ALL.len();

/// A section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// [`Provenance`].
    Provenance,
    /// [`Metadata`].
    Metadata,
    /// Segments of the tiles.
    Images,
    /// Contents of the segments.
    Blobs,
    /// Symbols.
    Symbols,
    /// [`Description`].
    Description,
}

impl Section {
    /// All, in file order; the kind in the table counts from 1.
    pub const ALL: [Section; 6] = [
        Section::Provenance,
        Section::Metadata,
        Section::Images,
        Section::Blobs,
        Section::Symbols,
        Section::Description,
    ];

    /// Name in messages and dumps.
    pub fn name(self) -> &'static str {
        match self {
            Section::Provenance => "provenance",
            Section::Metadata => "metadata",
            Section::Images => "images",
            Section::Blobs => "blobs",
            Section::Symbols => "symbols",
            Section::Description => "description",
        }
    }

    /// Most bytes that a section may have when it is decoded.
    pub fn limit(self) -> u64 {
        const MIB: u64 = 1 << 20;
        match self {
            Section::Provenance => MIB,
            // Constants of the model are here.
            Section::Metadata => 1024 * MIB,
            Section::Images | Section::Symbols | Section::Description => 256 * MIB,
            // All memory of the chip.
            Section::Blobs => 1024 * MIB,
        }
    }
}

/// What the header says, for dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub format_version: u32,
    /// Version of the tools that wrote the file.
    pub tool_version: String,
    /// Target.
    pub target: String,
    /// SHA-256 of the file: identifies the package.
    pub digest: [u8; 32],
    /// The section table.
    pub sections: Vec<SectionEntry>,
}

/// What the section table says of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    /// The section.
    pub section: Section,
    /// How its bytes are stored.
    pub codec: Codec,
    /// Where they are in the file.
    pub stored: Range<usize>,
    /// Bytes when decoded.
    pub bytes: u64,
    /// CRC-32 of the stored bytes.
    pub crc: u32,
}

impl Header {
    /// Reads the header and verifies all checksums, without decoding the sections.
    ///
    /// # Errors
    /// Any byte is not as it was written.
    pub fn read(bytes: &[u8]) -> Result<Header, PackageError> {
        let found = bytes.get(..MAGIC.len()).unwrap_or(bytes);
        if !MAGIC.starts_with(found) || bytes.is_empty() {
            return Err(PackageError::Magic {
                found: found.to_vec(),
            });
        }
        let length = |expected: u64| PackageError::Length {
            found: bytes.len() as u64,
            expected,
        };
        if bytes.len() < HEADER {
            return Err(length(HEADER as u64));
        }
        let format_version = u32_at(bytes, VERSION.start);
        if format_version != FORMAT_VERSION {
            let writer = text(&bytes[TOOL], "tool version").unwrap_or_else(|_| "unknown".into());
            return Err(PackageError::Version {
                found: format_version,
                writer,
            });
        }
        let total = u64_at(bytes, LENGTH.start);
        if total != bytes.len() as u64 {
            return Err(length(total));
        }
        checksum("header", header_crc(bytes), u32_at(bytes, CRC.start))?;
        let count = u32_at(bytes, COUNT.start);
        if count as usize != Section::ALL.len() {
            return Err(value("header", "section count", count, Section::ALL.len()));
        }
        let mut sections = Vec::new();
        let mut end = HEADER as u64;
        for (i, section) in Section::ALL.into_iter().enumerate() {
            let at = TABLE + i * ENTRY;
            let (kind, codec) = (u32_at(bytes, at), u32_at(bytes, at + 4));
            let (crc, reserved) = (u32_at(bytes, at + 8), u32_at(bytes, at + 12));
            let (offset, length) = (u64_at(bytes, at + 16), u64_at(bytes, at + 24));
            let decoded = u64_at(bytes, at + 32);
            let field = |name: &str| format!("{name} of section '{}'", section.name());
            if kind as usize != i + 1 {
                return Err(value("header", field("kind"), kind, i + 1));
            }
            let Some(&codec) = Codec::ALL.get(codec as usize) else {
                return Err(value("header", field("codec"), codec, "0 or 1"));
            };
            if reserved != 0 {
                return Err(value("header", field("reserved word"), reserved, 0));
            }
            if offset != end {
                return Err(value("header", field("offset"), offset, end));
            }
            end = end
                .checked_add(length)
                .filter(|e| *e <= total)
                .ok_or_else(|| {
                    value(
                        "header",
                        field("length"),
                        length,
                        format!("at most {}", total - offset),
                    )
                })?;
            let most = codec.most(length).min(section.limit());
            if decoded > most || codec == Codec::Plain && decoded != length {
                let expected = match codec {
                    Codec::Plain if length <= most => length.to_string(),
                    _ => format!("at most {most}"),
                };
                return Err(value("header", field("decoded length"), decoded, expected));
            }
            let stored = offset as usize..end as usize;
            checksum(section.name(), crc32fast::hash(&bytes[stored.clone()]), crc)?;
            sections.push(SectionEntry {
                section,
                codec,
                stored,
                bytes: decoded,
                crc,
            });
        }
        if end != total {
            return Err(value("header", "end of the last section", end, total));
        }
        let recorded = &bytes[DIGEST];
        let actual = digest(bytes);
        if actual != recorded {
            return Err(PackageError::Digest {
                found: hex(&actual),
                expected: hex(recorded),
            });
        }
        Ok(Header {
            format_version,
            tool_version: text(&bytes[TOOL], "tool version")?,
            target: text(&bytes[TARGET], "target")?,
            digest: actual,
            sections,
        })
    }

    /// The digest as text.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

fn text(field: &[u8], name: &str) -> Result<String, PackageError> {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    match std::str::from_utf8(&field[..end]) {
        Ok(text) if end > 0 && field[end..].iter().all(|&b| b == 0) => Ok(text.to_owned()),
        _ => Err(value(
            "header",
            name,
            format!("\"{}\"", field.escape_ascii()),
            "text padded with zeros",
        )),
    }
}

fn put_text(field: &mut [u8], name: &str, content: &str) -> Result<(), PackageError> {
    if content.is_empty() || content.len() > field.len() || content.contains('\0') {
        return Err(value(
            "header",
            name,
            format!("'{content}'"),
            format!("text of 1 to {} bytes", field.len()),
        ));
    }
    field[..content.len()].copy_from_slice(content.as_bytes());
    Ok(())
}

fn checksum(section: &'static str, found: u32, expected: u32) -> Result<(), PackageError> {
    match found == expected {
        true => Ok(()),
        false => Err(PackageError::Checksum {
            section,
            found,
            expected,
        }),
    }
}

fn header_crc(bytes: &[u8]) -> u32 {
    let mut header = bytes[..HEADER].to_vec();
    header[CRC].fill(0);
    crc32fast::hash(&header)
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut header = bytes[..HEADER].to_vec();
    header[DIGEST].fill(0);
    header[CRC].fill(0);
    Sha256::new()
        .chain_update(&header)
        .chain_update(&bytes[HEADER..])
        .finalize()
        .into()
}

fn to_postcard<T: Serialize>(section: Section, content: &T) -> Result<Vec<u8>, PackageError> {
    postcard::to_stdvec(content).map_err(|e| PackageError::Decode {
        section: section.name(),
        reason: e.to_string(),
    })
}

fn from_postcard<T: DeserializeOwned>(section: Section, bytes: &[u8]) -> Result<T, PackageError> {
    let (content, rest) = postcard::take_from_bytes(bytes).map_err(|e| PackageError::Decode {
        section: section.name(),
        reason: e.to_string(),
    })?;
    match rest.is_empty() {
        true => Ok(content),
        false => Err(value(
            section.name(),
            "trailing data",
            format!("{} bytes", rest.len()),
            "none",
        )),
    }
}

fn encode_blobs(blobs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (blobs.len() as u32).to_le_bytes().to_vec();
    for blob in blobs {
        bytes.extend((blob.len() as u32).to_le_bytes());
    }
    for blob in blobs {
        bytes.extend(blob);
    }
    bytes
}

fn decode_blobs(bytes: &[u8]) -> Result<Vec<Vec<u8>>, PackageError> {
    let section = Section::Blobs.name();
    let size = bytes.len();
    if size < 4 {
        return Err(value(section, "length", size, "at least 4"));
    }
    let count = u32_at(bytes, 0) as usize;
    if count > (size - 4) / 4 {
        return Err(value(
            section,
            "blob count",
            count,
            format!("at most {}", (size - 4) / 4),
        ));
    }
    let mut at = 4 + count * 4;
    let mut blobs = Vec::with_capacity(count);
    for i in 0..count {
        let length = u32_at(bytes, 4 + i * 4) as usize;
        let blob = at
            .checked_add(length)
            .and_then(|end| bytes.get(at..end))
            .ok_or_else(|| {
                value(
                    section,
                    format!("length of blob {i}"),
                    length,
                    format!("at most {}", size - at),
                )
            })?;
        blobs.push(blob.to_vec());
        at += length;
    }
    match size - at {
        0 => Ok(blobs),
        rest => Err(value(
            section,
            "trailing data",
            format!("{rest} bytes"),
            "none",
        )),
    }
}

/// Decodes a section whose length the table allows.
fn inflate(entry: &SectionEntry, stored: &[u8]) -> Result<Vec<u8>, PackageError> {
    let section = entry.section.name();
    let decoded = codec::decompress(entry.codec, stored, entry.bytes);
    decoded.map_err(|error| match error {
        CodecError::Length { found, expected } => value(section, "decoded length", found, expected),
        CodecError::Trailing(rest) => value(
            section,
            "data behind the zstd frame",
            format!("{rest} bytes"),
            "none",
        ),
        CodecError::Zstd(reason) => PackageError::Decode {
            section,
            reason: format!("zstd: {reason}"),
        },
    })
}

/// The bytes of a section as they are stored.
fn deflate(section: Section, bytes: &[u8]) -> Result<(Codec, Vec<u8>), PackageError> {
    codec::compress(bytes).map_err(|e| PackageError::Decode {
        section: section.name(),
        reason: format!("zstd: {e}"),
    })
}

/// The decoded sections of a file, in its order.
pub(super) type Contents = [Vec<u8>; Section::ALL.len()];

/// The bytes of a package, unchecked.
pub(super) fn encode(package: &Package) -> Result<Vec<u8>, PackageError> {
    let contents = [
        to_postcard(Section::Provenance, &package.provenance)?,
        to_postcard(Section::Metadata, &package.metadata)?,
        to_postcard(Section::Images, &package.images.tiles)?,
        encode_blobs(&package.images.blobs),
        to_postcard(Section::Symbols, &package.symbols)?,
        to_postcard(Section::Description, &package.description)?,
    ];
    assemble(&package.target, &package.tool_version, &contents)
}

/// The file with the given sections.
pub(super) fn assemble(
    target: &str,
    tool: &str,
    contents: &Contents,
) -> Result<Vec<u8>, PackageError> {
    let mut stored = Vec::with_capacity(contents.len());
    for (section, content) in Section::ALL.into_iter().zip(contents) {
        let most = section.limit();
        if content.len() as u64 > most {
            let expected = format!("at most {most}");
            return Err(value(section.name(), "length", content.len(), expected));
        }
        let (codec, bytes) = deflate(section, content)?;
        stored.push((codec, bytes, content.len() as u64));
    }
    assemble_stored(target, tool, &stored)
}

/// The file with sections that are stored already: codec, bytes and decoded length of each.
pub(super) fn assemble_stored(
    target: &str,
    tool: &str,
    stored: &[(Codec, Vec<u8>, u64)],
) -> Result<Vec<u8>, PackageError> {
    let mut bytes = vec![0u8; HEADER];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[COUNT].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    put_text(&mut bytes[TARGET], "target", target)?;
    put_text(&mut bytes[TOOL], "tool version", tool)?;
    for (i, (codec, content, decoded)) in stored.iter().enumerate() {
        let at = TABLE + i * ENTRY;
        let offset = bytes.len() as u64;
        let words = [i as u32 + 1, *codec as u32, crc32fast::hash(content), 0];
        let longs = [offset, content.len() as u64, *decoded];
        let entry: Vec<u8> = words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .chain(longs.iter().flat_map(|l| l.to_le_bytes()))
            .collect();
        bytes[at..at + ENTRY].copy_from_slice(&entry);
        bytes.extend(content);
    }
    seal(&mut bytes);
    Ok(bytes)
}

/// Sets length, digest and checksum in the header.
pub(super) fn seal(bytes: &mut [u8]) {
    let total = bytes.len() as u64;
    bytes[LENGTH].copy_from_slice(&total.to_le_bytes());
    let digest = digest(bytes);
    bytes[DIGEST].copy_from_slice(&digest);
    let crc = header_crc(bytes);
    bytes[CRC].copy_from_slice(&crc.to_le_bytes());
}

/// The decoded sections of a file whose header was read.
pub(super) fn contents(bytes: &[u8], header: &Header) -> Result<Contents, PackageError> {
    let mut contents = Contents::default();
    for (content, entry) in contents.iter_mut().zip(&header.sections) {
        *content = inflate(entry, &bytes[entry.stored.clone()])?;
    }
    Ok(contents)
}

/// Reads a package for `target`; its contents are not checked yet.
pub(super) fn decode(bytes: &[u8], target: &Target) -> Result<Package, PackageError> {
    let header = Header::read(bytes)?;
    if header.target != target.name {
        return Err(value("header", "target", header.target, &target.name));
    }
    let [provenance, metadata, images, blobs, symbols, description] = contents(bytes, &header)?;
    let tiles: Vec<TileImage> = from_postcard(Section::Images, &images)?;
    let symbols: Vec<Symbol> = from_postcard(Section::Symbols, &symbols)?;
    Ok(Package {
        provenance: from_postcard::<Provenance>(Section::Provenance, &provenance)?,
        metadata: from_postcard::<Metadata>(Section::Metadata, &metadata)?,
        description: from_postcard::<Description>(Section::Description, &description)?,
        images: Images {
            blobs: decode_blobs(&blobs)?,
            tiles,
        },
        tool_version: header.tool_version,
        target: header.target,
        symbols,
    })
}
