//! Values on the command line: numbers, registers, memory.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, anyhow, bail};

/// An integer in any base, or an address.
pub fn address(text: &str) -> Result<u32> {
    Ok(integer(text)? as u32)
}

fn integer(text: &str) -> Result<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let value = match digits.get(..2) {
        Some("0x" | "0X") => i64::from_str_radix(&digits[2..], 16),
        Some("0b" | "0B") => i64::from_str_radix(&digits[2..], 2),
        _ => digits.parse(),
    };
    let value = value.with_context(|| format!("'{text}' is no integer"))?;
    let value = if negative { -value } else { value };
    if !(-(1 << 31)..1 << 32).contains(&value) {
        bail!("'{text}' does not fit 32 bits");
    }
    Ok(value)
}

/// One value: an integer word, an f32, or an f16.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Word(u32),
    Half(u16),
}

impl FromStr for Value {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Value> {
        let float = |t: &str| -> Result<f64> {
            t.parse::<f64>()
                .with_context(|| format!("'{text}' is no number"))
        };
        let hex = text.starts_with("0x") || text.starts_with("0X");
        if let Some(half) = text.strip_suffix('h').filter(|_| !hex) {
            return Ok(Value::Half(half::f16::from_f64(float(half)?).to_bits()));
        }
        let named = ["inf", "nan"].iter().any(|n| text.ends_with(n));
        if !hex && (text.contains('.') || text.contains('e') || named) {
            return Ok(Value::Word((float(text)? as f32).to_bits()));
        }
        Ok(Value::Word(integer(text)? as u32))
    }
}

/// The bytes of values separated by `/`; an odd number of halves is filled up to a word.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for part in text.split('/') {
        match part.parse()? {
            Value::Half(bits) => out.extend_from_slice(&bits.to_le_bytes()),
            Value::Word(word) => {
                out.resize(out.len().next_multiple_of(4), 0);
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
    Ok(out)
}

/// An assembler constant.
#[derive(Clone, Debug)]
pub struct Define {
    pub name: String,
    pub value: i64,
}

impl FromStr for Define {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Define> {
        let (name, value) = text.split_once('=').unwrap_or((text, "1"));
        Ok(Define {
            name: name.to_string(),
            value: integer(value)?,
        })
    }
}

/// Words for registers.
#[derive(Clone, Debug)]
pub struct Setting {
    /// In the A file.
    pub in_a: bool,
    pub first: u8,
    pub words: Vec<u32>,
}

impl FromStr for Setting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Setting> {
        let (register, value) = text
            .split_once('=')
            .ok_or_else(|| anyhow!("'{text}' is not REGISTER=VALUE"))?;
        let register = register.trim().trim_start_matches('$');
        let in_a = register.starts_with('a');
        if !in_a && !register.starts_with('m') {
            bail!("'{register}' is no register");
        }
        let first = register[1..].split(':').next().unwrap_or("");
        let first: u8 = first
            .parse()
            .ok()
            .filter(|&r| r < if in_a { 8 } else { 12 })
            .ok_or_else(|| anyhow!("'{register}' is no general register"))?;
        let mut data = bytes(value)?;
        data.resize(data.len().next_multiple_of(4), 0);
        let words: Vec<u32> = data
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if usize::from(first) + words.len() > if in_a { 8 } else { 12 } {
            bail!("'{text}' has more values than registers");
        }
        Ok(Setting { in_a, first, words })
    }
}

/// Contents of memory.
#[derive(Clone, Debug)]
pub enum Contents {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// Something to load.
#[derive(Clone, Debug)]
pub struct Load {
    pub address: u32,
    pub contents: Contents,
}

impl FromStr for Load {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Load> {
        let (at, contents) = text
            .split_once('=')
            .ok_or_else(|| anyhow!("'{text}' is not ADDR=@FILE"))?;
        Ok(Load {
            address: address(at)?,
            contents: match contents.strip_prefix('@') {
                Some(path) => Contents::File(path.into()),
                None => Contents::Bytes(bytes(contents)?),
            },
        })
    }
}

/// How memory is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    U32,
    U16,
    U8,
    F32,
    F16,
}

/// A range of memory.
#[derive(Clone, Debug)]
pub struct Dump {
    pub address: u32,
    pub len: usize,
    pub element: Element,
    pub file: Option<PathBuf>,
}

impl FromStr for Dump {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Dump> {
        let (range, file) = match text.split_once('=') {
            Some((range, file)) => {
                let path = file
                    .strip_prefix('@')
                    .ok_or_else(|| anyhow!("'{text}' is not ADDR:LEN=@FILE"))?;
                (range, Some(path.into()))
            }
            None => (text, None),
        };
        let parts: Vec<&str> = range.split(':').collect();
        let (at, len, element) = match parts[..] {
            [at, len] => (at, len, "u32"),
            [at, len, element] => (at, len, element),
            _ => bail!("'{range}' is not ADDR:LEN"),
        };
        Ok(Dump {
            address: address(at)?,
            len: address(len)? as usize,
            element: match element {
                "u32" => Element::U32,
                "u16" => Element::U16,
                "u8" => Element::U8,
                "f32" => Element::F32,
                "f16" => Element::F16,
                other => bail!("'{other}' is no element type"),
            },
            file,
        })
    }
}

impl Element {
    /// Bytes as text, values separated by blanks.
    pub fn print(self, bytes: &[u8]) -> String {
        let size = match self {
            Element::U32 | Element::F32 => 4,
            Element::U16 | Element::F16 => 2,
            Element::U8 => 1,
        };
        let texts: Vec<String> = bytes
            .chunks(size)
            .map(|chunk| {
                let mut wide = [0; 4];
                wide[..chunk.len()].copy_from_slice(chunk);
                let word = u32::from_le_bytes(wide);
                match self {
                    Element::U32 => format!("{word:#010x}"),
                    Element::U16 => format!("{word:#06x}"),
                    Element::U8 => format!("{word:#04x}"),
                    Element::F32 => format!("{:?}", f32::from_bits(word)),
                    Element::F16 => {
                        format!("{:?}", half::f16::from_bits(word as u16).to_f32())
                    }
                }
            })
            .collect();
        texts.join(" ")
    }
}

/// Logical tiles.
#[derive(Clone, Debug)]
pub struct TileSet(pub Vec<u32>);

impl FromStr for TileSet {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<TileSet> {
        let mut tiles = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse()?, last.trim().parse()?);
            if last < first || last >= 1 << 16 {
                bail!("'{part}' is no range of tiles");
            }
            tiles.extend(first..=last);
        }
        tiles.sort_unstable();
        tiles.dedup();
        Ok(TileSet(tiles))
    }
}
