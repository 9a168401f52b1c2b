//! Tile memory: lazily allocated pages that images share, and the decoded code above them.

use std::sync::Arc;

use ipu_target::Target;

use crate::code::{BLOCK_BYTES, BLOCK_WORDS, CodeBlock, CodeCache, Issue};
use crate::fault::Reason;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// One page of memory.
pub(crate) type Page = [u8; PAGE_BYTES];

static ZERO: Page = [0; PAGE_BYTES];

/// A page: never written, shared with other tiles, or private.
#[derive(Clone, Default)]
enum Slot {
    #[default]
    Zero,
    Shared(Arc<Page>),
    Owned(Box<Page>),
}

impl Slot {
    #[inline]
    fn get(&self) -> &Page {
        match self {
            Slot::Zero => &ZERO,
            Slot::Shared(page) => page,
            Slot::Owned(page) => page,
        }
    }

    #[inline(always)]
    fn get_mut(&mut self) -> &mut Page {
        match self {
            Slot::Owned(page) => page,
            other => other.own(),
        }
    }

    /// A private copy in place of what was there.
    #[cold]
    fn own(&mut self) -> &mut Page {
        *self = Slot::Owned(Box::new(*self.get()));
        match self {
            Slot::Owned(page) => page,
            _ => unreachable!("just replaced"),
        }
    }
}

/// The bytes of one tile. Unwritten bytes read as 0.
pub(crate) struct Ram {
    base: u32,
    size: u32,
    region1: u32,
    pages: Vec<Slot>,
    /// Offset of the newest store to region 0 that decoded code has not seen.
    stored: Option<usize>,
}

impl Ram {
    /// Offset of a legal access of `N` bytes.
    #[inline]
    fn offset<const N: usize>(&self, address: u32) -> Result<usize, Reason> {
        let offset = address.wrapping_sub(self.base);
        if offset >= self.size {
            return Err(Reason::BadAddress { address });
        }
        if !(address as usize).is_multiple_of(N) {
            return Err(Reason::Misaligned {
                address,
                bytes: N as u32,
            });
        }
        Ok(offset as usize)
    }

    #[inline(always)]
    fn read<const N: usize>(&self, address: u32) -> Result<[u8; N], Reason> {
        let offset = self.offset::<N>(address)?;
        let page = self.pages[offset / PAGE_BYTES].get();
        let mut out = [0; N];
        // Aligned accesses never cross a page.
        out.copy_from_slice(&page[offset % PAGE_BYTES..][..N]);
        Ok(out)
    }

    #[inline(always)]
    fn write<const N: usize>(&mut self, address: u32, bytes: [u8; N]) -> Result<(), Reason> {
        let offset = self.offset::<N>(address)?;
        let page = self.pages[offset / PAGE_BYTES].get_mut();
        page[offset % PAGE_BYTES..][..N].copy_from_slice(&bytes);
        if address < self.region1 {
            self.stored = Some(offset);
        }
        Ok(())
    }

    /// The aligned eight bytes at an offset from the start of memory; 0 beyond its end.
    #[inline(always)]
    pub(crate) fn peek64(&self, offset: u32) -> u64 {
        let offset = offset as usize;
        match self.pages.get(offset / PAGE_BYTES) {
            Some(page) => {
                let (words, _) = page.get().as_chunks();
                u64::from_le_bytes(words[offset / 8 % (PAGE_BYTES / 8)])
            }
            None => 0,
        }
    }

    /// Stores what [`Ram::peek64`] reads, where no code is decoded; nothing beyond the end.
    #[inline(always)]
    pub(crate) fn poke64(&mut self, offset: u32, value: u64) {
        let offset = offset as usize;
        if let Some(page) = self.pages.get_mut(offset / PAGE_BYTES) {
            let (words, _) = page.get_mut().as_chunks_mut();
            words[offset / 8 % (PAGE_BYTES / 8)] = value.to_le_bytes();
        }
    }

    /// Four values as by [`Ram::peek64`], one behind the other.
    #[inline(always)]
    pub(crate) fn peek_row(&self, offset: u32) -> [u64; 4] {
        let (page, at) = (
            offset as usize / PAGE_BYTES,
            offset as usize % PAGE_BYTES / 8,
        );
        match self.pages.get(page) {
            Some(page) if at <= PAGE_BYTES / 8 - 4 => {
                let (words, _) = page.get().as_chunks();
                [0, 1, 2, 3].map(|i: usize| u64::from_le_bytes(words[at + i]))
            }
            _ => [0, 8, 16, 24].map(|bytes| self.peek64(offset.wrapping_add(bytes))),
        }
    }

    /// Stores four values as by [`Ram::poke64`], one behind the other.
    #[inline(always)]
    pub(crate) fn poke_row(&mut self, offset: u32, values: [u64; 4]) {
        let (page, at) = (
            offset as usize / PAGE_BYTES,
            offset as usize % PAGE_BYTES / 8,
        );
        match self.pages.get_mut(page) {
            Some(page) if at <= PAGE_BYTES / 8 - 4 => {
                let (words, _) = page.get_mut().as_chunks_mut();
                for (i, value) in values.into_iter().enumerate() {
                    words[at + i] = value.to_le_bytes();
                }
            }
            _ => {
                for (i, value) in values.into_iter().enumerate() {
                    self.poke64(offset.wrapping_add(8 * i as u32), value);
                }
            }
        }
    }

    /// Start and size of memory.
    pub(crate) fn extent(&self) -> (u32, u32) {
        (self.base, self.size)
    }

    #[inline]
    pub(crate) fn read8(&self, address: u32) -> Result<u8, Reason> {
        self.read::<1>(address).map(|[b]| b)
    }

    #[inline]
    pub(crate) fn read16(&self, address: u32) -> Result<u16, Reason> {
        self.read(address).map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn read32(&self, address: u32) -> Result<u32, Reason> {
        self.read(address).map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn read64(&self, address: u32) -> Result<u64, Reason> {
        self.read(address).map(u64::from_le_bytes)
    }

    /// A 16-byte access, only legal in interleaved memory.
    #[inline]
    pub(crate) fn read128(&self, address: u32) -> Result<[u64; 2], Reason> {
        let bytes = self.read::<16>(address)?;
        if address < self.region1 {
            return Err(Reason::NotInterleaved { address });
        }
        let value = u128::from_le_bytes(bytes);
        Ok([value as u64, (value >> 64) as u64])
    }

    #[inline]
    pub(crate) fn write32(&mut self, address: u32, value: u32) -> Result<(), Reason> {
        self.write(address, value.to_le_bytes())
    }

    #[inline]
    pub(crate) fn write64(&mut self, address: u32, value: u64) -> Result<(), Reason> {
        self.write(address, value.to_le_bytes())
    }
}

/// The memory of one tile and the instructions decoded from it.
pub(crate) struct Memory {
    pub(crate) ram: Ram,
    /// Decoded blocks of region 0, dropped when their words change.
    pub(crate) code: Code,
}

/// Decoded blocks of region 0; empty until the first fetch.
#[derive(Default)]
pub(crate) struct Code(Vec<Option<Arc<CodeBlock>>>);

impl Code {
    /// The instruction at `pc`, decoded at most once as long as its words do not change.
    #[inline]
    pub(crate) fn fetch(
        &mut self,
        ram: &Ram,
        pc: u32,
        cache: &CodeCache,
    ) -> Result<&Issue, Reason> {
        let offset = pc.wrapping_sub(ram.base) as usize;
        let (index, at) = (offset / BLOCK_BYTES, offset / 4 % BLOCK_WORDS);
        if !pc.is_multiple_of(4) || !matches!(self.0.get(index), Some(Some(_))) {
            self.fill(ram, pc, cache)?;
        }
        match self.0.get(index) {
            Some(Some(block)) => Ok(&block.0[at]),
            _ => Err(Reason::BadFetch { pc }),
        }
    }

    /// The instruction at `pc` if it is decoded.
    pub(crate) fn decoded(&self, ram: &Ram, pc: u32) -> Option<&Issue> {
        let offset = pc.wrapping_sub(ram.base) as usize;
        match self.0.get(offset / BLOCK_BYTES) {
            Some(Some(block)) if pc.is_multiple_of(4) => Some(&block.0[offset / 4 % BLOCK_WORDS]),
            _ => None,
        }
    }

    /// Whether stores to offsets in `[start, end)` would drop decoded code.
    pub(crate) fn covers(&self, start: usize, end: usize) -> bool {
        let blocks = self.0.get(self.touched(start, end)).unwrap_or_default();
        blocks.iter().any(Option::is_some)
    }

    /// The blocks that hold words of `[start, end)`: a block also holds the first word of its
    /// successor.
    fn touched(&self, start: usize, end: usize) -> std::ops::Range<usize> {
        let first = start.saturating_sub(4) / BLOCK_BYTES;
        first..end.div_ceil(BLOCK_BYTES).min(self.0.len())
    }

    #[cold]
    fn fill(&mut self, ram: &Ram, pc: u32, cache: &CodeCache) -> Result<(), Reason> {
        if !pc.is_multiple_of(4) || pc < ram.base || pc >= ram.region1 {
            return Err(Reason::BadFetch { pc });
        }
        if self.0.is_empty() {
            self.0 = vec![None; (ram.region1 - ram.base) as usize / BLOCK_BYTES];
        }
        let index = (pc - ram.base) as usize / BLOCK_BYTES;
        let start = ram.base + (index * BLOCK_BYTES) as u32;
        let mut words = [0; BLOCK_WORDS + 1];
        for (i, word) in words.iter_mut().enumerate() {
            let address = start + 4 * i as u32;
            // Nothing is executed from region 1, not even the second word of a bundle.
            *word = if address < ram.region1 {
                ram.read32(address)?
            } else {
                0
            };
        }
        self.0[index] = Some(cache.block(&words));
        Ok(())
    }

    /// Drops what was decoded from `[start, end)`.
    fn forget(&mut self, start: usize, end: usize) {
        let touched = self.touched(start, end);
        for block in self.0.get_mut(touched).unwrap_or_default() {
            *block = None;
        }
    }
}

impl Memory {
    pub(crate) fn new(target: &Target) -> Memory {
        let size = target.memory_end - target.memory_base;
        Memory {
            ram: Ram {
                base: target.memory_base,
                size,
                region1: target.region1_base,
                pages: vec![Slot::Zero; size as usize / PAGE_BYTES],
                stored: None,
            },
            code: Code::default(),
        }
    }

    /// Lets the decoded code see the store of an instruction.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(offset) = self.ram.stored.take() {
            self.code.forget(offset, offset + 8);
        }
    }

    /// Whether `[address, address + bytes)` lies in tile memory.
    pub(crate) fn contains(&self, address: u32, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.ram.base);
        offset <= self.ram.size && bytes <= (self.ram.size - offset) as usize
    }

    /// Host read; the range must be contained.
    pub(crate) fn read_bytes(&self, address: u32, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len);
        let mut at = (address - self.ram.base) as usize;
        while out.len() < len {
            let part = (PAGE_BYTES - at % PAGE_BYTES).min(len - out.len());
            let page = self.ram.pages[at / PAGE_BYTES].get();
            out.extend_from_slice(&page[at % PAGE_BYTES..][..part]);
            at += part;
        }
        out
    }

    /// Host write; the range must be contained.
    pub(crate) fn write_bytes(&mut self, address: u32, bytes: &[u8]) {
        let start = (address - self.ram.base) as usize;
        let mut at = start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = (PAGE_BYTES - at % PAGE_BYTES).min(rest.len());
            let (head, tail) = rest.split_at(part);
            let page = self.ram.pages[at / PAGE_BYTES].get_mut();
            page[at % PAGE_BYTES..][..part].copy_from_slice(head);
            at += part;
            rest = tail;
        }
        self.code.forget(start, at);
    }

    /// Puts a whole shared page at a page-aligned contained address.
    pub(crate) fn share_page(&mut self, address: u32, page: &Arc<Page>) {
        let start = (address - self.ram.base) as usize;
        self.ram.pages[start / PAGE_BYTES] = Slot::Shared(Arc::clone(page));
        self.code.forget(start, start + PAGE_BYTES);
    }
}
