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

    #[inline]
    fn get_mut(&mut self) -> &mut Page {
        match self {
            Slot::Owned(page) => page,
            other => {
                *other = Slot::Owned(Box::new(*other.get()));
                match other {
                    Slot::Owned(page) => page,
                    _ => unreachable!("just replaced"),
                }
            }
        }
    }
}

/// The memory of one tile. Unwritten bytes read as 0.
pub(crate) struct Memory {
    base: u32,
    size: u32,
    region1: u32,
    pages: Vec<Slot>,
    /// Decoded blocks of region 0, dropped when their words change.
    code: Vec<Option<Arc<CodeBlock>>>,
}

impl Memory {
    pub(crate) fn new(target: &Target) -> Memory {
        let size = target.memory_end - target.memory_base;
        Memory {
            base: target.memory_base,
            size,
            region1: target.region1_base,
            pages: vec![Slot::Zero; size as usize / PAGE_BYTES],
            code: Vec::new(),
        }
    }

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

    #[inline]
    fn read<const N: usize>(&self, address: u32) -> Result<[u8; N], Reason> {
        let offset = self.offset::<N>(address)?;
        let page = self.pages[offset / PAGE_BYTES].get();
        let mut out = [0; N];
        // Aligned accesses never cross a page.
        out.copy_from_slice(&page[offset % PAGE_BYTES..][..N]);
        Ok(out)
    }

    #[inline]
    fn write<const N: usize>(&mut self, address: u32, bytes: [u8; N]) -> Result<(), Reason> {
        let offset = self.offset::<N>(address)?;
        let page = self.pages[offset / PAGE_BYTES].get_mut();
        page[offset % PAGE_BYTES..][..N].copy_from_slice(&bytes);
        if address < self.region1 {
            self.forget_code(offset);
        }
        Ok(())
    }

    /// Drops what was decoded from the word at `offset`: its block and, as a block also holds
    /// the first word of its successor, the block before.
    #[inline]
    fn forget_code(&mut self, offset: usize) {
        let block = offset / BLOCK_BYTES;
        if let Some(code) = self.code.get_mut(block) {
            *code = None;
            if offset % BLOCK_BYTES < 4
                && let Some(before) = block.checked_sub(1)
            {
                self.code[before] = None;
            }
        }
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

    /// Whether `[address, address + bytes)` lies in tile memory.
    pub(crate) fn contains(&self, address: u32, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.size && bytes <= (self.size - offset) as usize
    }

    /// Host read; the range must be contained.
    pub(crate) fn read_bytes(&self, address: u32, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len);
        let mut at = (address - self.base) as usize;
        while out.len() < len {
            let part = (PAGE_BYTES - at % PAGE_BYTES).min(len - out.len());
            out.extend_from_slice(&self.pages[at / PAGE_BYTES].get()[at % PAGE_BYTES..][..part]);
            at += part;
        }
        out
    }

    /// Host write; the range must be contained.
    pub(crate) fn write_bytes(&mut self, address: u32, bytes: &[u8]) {
        let mut at = (address - self.base) as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = (PAGE_BYTES - at % PAGE_BYTES).min(rest.len());
            let (head, tail) = rest.split_at(part);
            self.pages[at / PAGE_BYTES].get_mut()[at % PAGE_BYTES..][..part].copy_from_slice(head);
            at += part;
            rest = tail;
        }
        self.forget_range(address, bytes.len());
    }

    /// Puts a whole shared page at a page-aligned contained address.
    pub(crate) fn share_page(&mut self, address: u32, page: &Arc<Page>) {
        let at = (address - self.base) as usize / PAGE_BYTES;
        self.pages[at] = Slot::Shared(Arc::clone(page));
        self.forget_range(address, PAGE_BYTES);
    }

    fn forget_range(&mut self, address: u32, bytes: usize) {
        let start = (address - self.base) as usize;
        let first = (start / BLOCK_BYTES).saturating_sub(1);
        let end = (start + bytes).div_ceil(BLOCK_BYTES).min(self.code.len());
        for block in self.code.get_mut(first..end).unwrap_or_default() {
            *block = None;
        }
    }

    /// The instruction at `pc`, decoded at most once as long as its words do not change.
    #[inline]
    pub(crate) fn fetch(&mut self, pc: u32, cache: &CodeCache) -> Result<Issue, Reason> {
        let offset = pc.wrapping_sub(self.base) as usize;
        let at = offset / 4 % BLOCK_WORDS;
        if let Some(Some(block)) = self.code.get(offset / BLOCK_BYTES)
            && pc.is_multiple_of(4)
        {
            return Ok(block.0[at]);
        }
        self.fetch_slow(pc, cache).map(|block| block.0[at])
    }

    #[cold]
    fn fetch_slow(&mut self, pc: u32, cache: &CodeCache) -> Result<Arc<CodeBlock>, Reason> {
        if !pc.is_multiple_of(4) || pc < self.base || pc >= self.region1 {
            return Err(Reason::BadFetch { pc });
        }
        if self.code.is_empty() {
            self.code = vec![None; (self.region1 - self.base) as usize / BLOCK_BYTES];
        }
        let index = (pc - self.base) as usize / BLOCK_BYTES;
        let start = self.base + (index * BLOCK_BYTES) as u32;
        let mut words = [0; BLOCK_WORDS + 1];
        for (i, word) in words.iter_mut().enumerate() {
            let address = start + 4 * i as u32;
            // Nothing is executed from region 1, not even the second word of a bundle.
            *word = if address < self.region1 {
                self.read32(address)?
            } else {
                0
            };
        }
        let block = cache.block(&words);
        self.code[index] = Some(Arc::clone(&block));
        Ok(block)
    }
}
