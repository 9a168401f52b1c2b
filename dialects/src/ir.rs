//! Reading and building IR: what melior lacks or makes long.

use crate::diag::{Failed, Span, error_at};
use crate::ffi;
use melior::Context;
use melior::ir::attribute::{AttributeLike, DenseI32ArrayAttribute, DenseI64ArrayAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::{OperationBuilder, OperationLike};
use melior::ir::r#type::RankedTensorType;
use melior::ir::{
    Attribute, Block, BlockRef, Identifier, Location, Operation, OperationRef, Region, RegionLike,
    RegionRef, ShapedTypeLike, Type, TypeLike, Value, ValueLike,
};
use mlir_sys::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Name of an operation, `nn.matmul`.
pub fn name(op: OperationRef<'_, '_>) -> String {
    op.name()
        .as_string_ref()
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The context of an operation.
pub fn context<'c>(op: OperationRef<'c, '_>) -> &'c Context {
    /// Addresses of contexts, kept where a `&Context` can point for as long as it likes.
    static SEEN: Mutex<BTreeMap<usize, &'static usize>> = Mutex::new(BTreeMap::new());
    const { assert!(size_of::<Context>() == size_of::<MlirContext>()) };
    // SAFETY: `op` is a valid operation.
    let raw = unsafe { mlirOperationGetContext(op.to_raw()) }.ptr as usize;
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let cell: &'static usize = seen.entry(raw).or_insert_with(|| Box::leak(Box::new(raw)));
    // SAFETY: `Context` is a wrapper of one pointer, which outlives the operation's `'c`.
    unsafe { &*std::ptr::from_ref(cell).cast() }
}

/// `file:line:column` of an operation, empty when unknown.
pub fn location(op: OperationRef<'_, '_>) -> String {
    Span::of(op.location())
        .map(|s| s.to_string())
        .unwrap_or_default()
}

/// The operations of a block, in order.
pub fn block_ops<'c: 'a, 'a>(
    block: BlockRef<'c, 'a>,
) -> impl Iterator<Item = OperationRef<'c, 'a>> {
    // SAFETY: the operation lives as long as its block.
    let relive =
        |op: OperationRef<'c, '_>| unsafe { OperationRef::<'c, 'a>::from_raw(op.to_raw()) };
    let first = block.first_operation().map(relive);
    std::iter::successors(first, move |op| op.next_in_block().map(relive))
}

/// The first block of an operation's first region.
pub fn body<'c: 'a, 'a>(op: OperationRef<'c, 'a>) -> Option<BlockRef<'c, 'a>> {
    // SAFETY: region and block live as long as the operation; null becomes `None`.
    unsafe {
        let region: RegionRef<'c, 'a> = RegionRef::from_raw(op.first_region()?.to_raw());
        BlockRef::from_option_raw(mlirRegionGetFirstBlock(region.to_raw()))
    }
}

/// The block that [`New::body`] made.
///
/// # Errors
/// There is none; a diagnostic says so.
pub fn new_body<'c, 'a>(op: &'a Operation<'c>) -> Result<BlockRef<'c, 'a>, Failed> {
    // SAFETY: the operation is alive while it is borrowed.
    let block = body(unsafe { OperationRef::from_raw(op.to_raw()) });
    block.ok_or_else(|| {
        error_at(
            op.location(),
            "internal error: the new operation has no body",
        )
    })
}

/// The first operation of that name directly in another.
pub fn child<'c: 'a, 'a>(op: OperationRef<'c, 'a>, wanted: &str) -> Option<OperationRef<'c, 'a>> {
    body_ops(op).find(|op| name(*op) == wanted)
}

/// The operations in the first block of an operation.
pub fn body_ops<'c: 'a, 'a>(
    op: OperationRef<'c, 'a>,
) -> impl Iterator<Item = OperationRef<'c, 'a>> {
    body(op).into_iter().flat_map(block_ops)
}

/// The operation that defines a value; `None` for a block argument.
pub fn definition<'c, 'a>(value: Value<'c, 'a>) -> Option<OperationRef<'c, 'a>> {
    // SAFETY: guarded by the test; the owner lives as long as its result.
    unsafe {
        mlirValueIsAOpResult(value.to_raw())
            .then(|| OperationRef::from_raw(mlirOpResultGetOwner(value.to_raw())))
    }
}

/// The value of an integer attribute of at most 64 bits; `None` when it is absent or another kind.
pub fn int(op: OperationRef<'_, '_>, name: &str) -> Option<i64> {
    let attribute = op.attribute(name).ok()?;
    attribute.is_integer().then(|| {
        // SAFETY: an integer attribute of at most 64 bits, as ODS demands.
        unsafe {
            match mlirIntegerTypeIsSigned(mlirAttributeGetType(attribute.to_raw()))
                || mlirIntegerTypeIsSignless(mlirAttributeGetType(attribute.to_raw()))
            {
                true => mlirIntegerAttrGetValueInt(attribute.to_raw()),
                false => mlirIntegerAttrGetValueUInt(attribute.to_raw()) as i64,
            }
        }
    })
}

/// The value of a float attribute; `None` when it is absent or another kind.
pub fn float(op: OperationRef<'_, '_>, name: &str) -> Option<f64> {
    let raw = op.attribute(name).ok()?.to_raw();
    // SAFETY: guarded by the test.
    unsafe { mlirAttributeIsAFloat(raw).then(|| mlirFloatAttrGetValueDouble(raw)) }
}

/// The values of a `DenseI64Array` attribute; `None` when absent.
pub fn ints(op: OperationRef<'_, '_>, name: &str) -> Option<Vec<i64>> {
    let raw = op.attribute(name).ok()?.to_raw();
    // SAFETY: guarded by the test; indices below the length.
    unsafe {
        mlirAttributeIsADenseI64Array(raw).then(|| {
            (0..mlirDenseArrayGetNumElements(raw))
                .map(|i| mlirDenseI64ArrayGetElement(raw, i))
                .collect()
        })
    }
}

/// The operations around an operation, from the inside out.
pub fn parents<'c: 'a, 'a>(op: OperationRef<'c, 'a>) -> impl Iterator<Item = OperationRef<'c, 'a>> {
    // SAFETY: a parent outlives what is in it; null becomes `None`.
    let parent = |op: &OperationRef<'c, 'a>| unsafe {
        OperationRef::from_option_raw(mlirOperationGetParentOperation(op.to_raw()))
    };
    std::iter::successors(parent(&op), parent)
}

/// A string attribute, or the name in a symbol reference.
pub fn string<'c>(op: OperationRef<'c, '_>, name: &str) -> Option<&'c str> {
    attribute_str(op.attribute(name).ok()?)
}

/// The text of a string attribute, or the name in a symbol reference.
pub fn attribute_str(attribute: Attribute<'_>) -> Option<&str> {
    let raw = attribute.to_raw();
    // SAFETY: guarded by the tests; the text lives as long as the context. (melior's accessors
    // cannot read the empty string.)
    unsafe {
        if mlirAttributeIsAString(raw) {
            std::str::from_utf8(ffi::as_bytes(mlirStringAttrGetValue(raw))).ok()
        } else if mlirAttributeIsAFlatSymbolRef(raw) {
            std::str::from_utf8(ffi::as_bytes(mlirFlatSymbolRefAttrGetValue(raw))).ok()
        } else {
            None
        }
    }
}

/// The elements of an array attribute; none when absent.
pub fn array<'c>(op: OperationRef<'c, '_>, name: &str) -> Vec<Attribute<'c>> {
    let Ok(array) = op.attribute(name) else {
        return vec![];
    };
    if !array.is_array() {
        return vec![];
    }
    // SAFETY: an array attribute, and indices below its length.
    unsafe {
        let count = mlirArrayAttrGetNumElements(array.to_raw());
        (0..count)
            .map(|i| Attribute::from_raw(mlirArrayAttrGetElement(array.to_raw(), i)))
            .collect()
    }
}

/// The values of a `DenseI32Array` attribute, as unsigned words; `None` when absent.
pub fn words(op: OperationRef<'_, '_>, name: &str) -> Option<Vec<u32>> {
    let array = DenseI32ArrayAttribute::try_from(op.attribute(name).ok()?).ok()?;
    // Element by element through the C API takes seconds on the tables of a whole chip.
    let bytes = elements_bytes(array.into())?;
    let (words, _) = bytes.as_chunks();
    Some(words.iter().map(|w| u32::from_ne_bytes(*w)).collect())
}

/// A `DenseI32Array` attribute of unsigned words.
pub fn words_attribute<'c>(context: &'c Context, words: &[u32]) -> Attribute<'c> {
    let words: Vec<i32> = words.iter().map(|&w| w as i32).collect();
    DenseI32ArrayAttribute::new(context, &words).into()
}

/// The values of a `DenseI64Array` attribute, as unsigned numbers; `None` when absent.
pub fn longs(op: OperationRef<'_, '_>, name: &str) -> Option<Vec<u64>> {
    let array = DenseI64ArrayAttribute::try_from(op.attribute(name).ok()?).ok()?;
    let bytes = elements_bytes(array.into())?;
    let (longs, _) = bytes.as_chunks();
    Some(longs.iter().map(|n| u64::from_ne_bytes(*n)).collect())
}

/// A `DenseI64Array` attribute of unsigned numbers.
pub fn longs_attribute<'c>(context: &'c Context, longs: &[u64]) -> Attribute<'c> {
    let longs: Vec<i64> = longs.iter().map(|&n| n as i64).collect();
    DenseI64ArrayAttribute::new(context, &longs).into()
}

/// The bytes of a dense, array or resource attribute; one element when it is a splat.
pub fn elements_bytes(attribute: Attribute<'_>) -> Option<Vec<u8>> {
    let (mut data, mut length) = (std::ptr::null(), 0);
    // SAFETY: the bytes live while the attribute does, and are copied.
    unsafe {
        if !ffi::ipuElementsBytes(attribute.to_raw(), &mut data, &mut length) {
            return None;
        }
        Some(if length == 0 {
            vec![]
        } else {
            std::slice::from_raw_parts(data.cast(), length as usize).to_vec()
        })
    }
}

/// A `dense_resource<name>` attribute that owns a copy of the bytes.
pub fn resource<'c>(ty: Type<'c>, name: &str, bytes: &[u8]) -> Attribute<'c> {
    // SAFETY: `ty` is a shaped type; the bytes are copied.
    unsafe {
        Attribute::from_raw(ffi::ipuResource(
            ty.to_raw(),
            ffi::text(name),
            bytes.as_ptr().cast(),
            bytes.len() as isize,
        ))
    }
}

/// The type of a typed attribute.
pub fn attribute_type(attribute: Attribute<'_>) -> Option<Type<'_>> {
    // SAFETY: null becomes `None`.
    unsafe { Type::from_option_raw(mlirAttributeGetType(attribute.to_raw())) }
}

/// Sets an attribute of an operation in place.
pub fn set_attribute(op: OperationRef<'_, '_>, name: &str, value: Attribute<'_>) {
    // SAFETY: both are valid; a pass owns the operations below its anchor.
    unsafe { mlirOperationSetAttributeByName(op.to_raw(), ffi::text(name), value.to_raw()) }
}

/// Takes an attribute away from an operation, if it has it.
pub fn remove_attribute(op: OperationRef<'_, '_>, name: &str) {
    // SAFETY: as `set_attribute`; a name that is not there changes nothing.
    unsafe { mlirOperationRemoveAttributeByName(op.to_raw(), ffi::text(name)) };
}

/// Inserts an operation before another and returns it.
pub fn insert_before<'c, 'a>(
    anchor: OperationRef<'c, 'a>,
    new: Operation<'c>,
) -> OperationRef<'c, 'a> {
    // SAFETY: the block takes ownership of `new`.
    unsafe {
        let raw = new.into_raw();
        mlirBlockInsertOwnedOperationBefore(
            mlirOperationGetBlock(anchor.to_raw()),
            anchor.to_raw(),
            raw,
        );
        OperationRef::from_raw(raw)
    }
}

/// Erases an operation without users. The caller must hold no other reference to it.
pub fn erase(op: OperationRef<'_, '_>) {
    // SAFETY: the operation is in a block, and is not used again.
    unsafe { mlirOperationDestroy(op.to_raw()) }
}

/// Puts an operation without results in the place of another.
pub fn replace<'c, 'a>(old: OperationRef<'c, 'a>, new: Operation<'c>) -> OperationRef<'c, 'a> {
    let new = insert_before(old, new);
    erase(old);
    new
}

/// A tensor type as IR has it; extents may be dynamic.
#[derive(Clone, Copy)]
pub struct Tensor<'c>(RankedTensorType<'c>);

impl<'c> Tensor<'c> {
    /// `None` when it is not a ranked tensor.
    pub fn of(ty: Type<'c>) -> Option<Self> {
        RankedTensorType::try_from(ty).ok().map(Tensor)
    }

    /// A type with an optional encoding.
    pub fn new(shape: &[u64], element: Type<'c>, encoding: Option<Attribute<'c>>) -> Self {
        Tensor(RankedTensorType::new(shape, element, encoding))
    }

    /// Extents, `None` where dynamic.
    pub fn extents(self) -> Vec<Option<u64>> {
        // SAFETY: a shaped type with rank, and axes below it.
        unsafe {
            (0..mlirShapedTypeGetRank(self.0.to_raw()))
                .map(|i| u64::try_from(mlirShapedTypeGetDimSize(self.0.to_raw(), i as isize)).ok())
                .collect()
        }
    }

    /// Extents, dynamic ones as 0.
    pub fn shape(self) -> Vec<u64> {
        self.extents()
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect()
    }

    /// The element type, of MLIR.
    pub fn element(self) -> Type<'c> {
        self.0.element()
    }

    /// The encoding, of whatever dialect; `None` when there is none.
    pub fn encoding(self) -> Option<Attribute<'c>> {
        self.0.encoding()
    }

    /// The tensor as the MLIR type that it is.
    pub fn ty(self) -> Type<'c> {
        self.0.into()
    }
}

impl std::fmt::Display for Tensor<'_> {
    /// Without the encoding.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tensor<")?;
        for extent in self.extents() {
            match extent {
                Some(n) => write!(f, "{n}x")?,
                None => f.write_str("?x")?,
            }
        }
        write!(f, "{}>", self.element())
    }
}

/// Parts of an operation to build.
#[derive(Default)]
pub struct New<'c, 'o> {
    /// Operands.
    pub operands: &'o [Value<'c, 'o>],
    /// Result types.
    pub results: &'o [Type<'c>],
    /// Attributes; those of value `None` are left out.
    pub attributes: &'o [(&'o str, Option<Attribute<'c>>)],
    /// Whether it gets a region with one block.
    pub body: bool,
}

impl<'c> New<'c, '_> {
    /// Builds the operation, which belongs to nobody yet. It must fit its definition: MLIR is built
    /// without assertions.
    ///
    /// # Errors
    /// melior refuses to build it.
    pub fn build(
        &self,
        name: &str,
        at: Location<'c>,
        context: &'c Context,
    ) -> Result<Operation<'c>, Failed> {
        let attributes: Vec<_> = self
            .attributes
            .iter()
            .filter_map(|&(name, value)| Some((Identifier::new(context, name), value?)))
            .collect();
        let mut builder = OperationBuilder::new(name, at)
            .add_operands(self.operands)
            .add_results(self.results)
            .add_attributes(&attributes);
        if self.body {
            let region = Region::new();
            region.append_block(Block::new(&[]));
            builder = builder.add_regions([region]);
        }
        let refused = |e| error_at(at, format!("internal error: cannot build '{name}': {e}"));
        builder.build().map_err(refused)
    }
}

/// A module as text. Tables and elements of more than `elide_larger` entries are left out, and
/// all resources.
pub fn text(module: &melior::ir::Module<'_>, elide_larger: usize) -> String {
    unsafe extern "C" fn append(text: mlir_sys::MlirStringRef, data: *mut std::ffi::c_void) {
        // SAFETY: `data` is the string below; the text lives during the call.
        unsafe { (*data.cast::<String>()).push_str(&ffi::to_string(text)) }
    }
    let mut out = String::new();
    // SAFETY: the module is valid, the flags are destroyed after use, `out` lives during the call.
    unsafe {
        let flags = mlir_sys::mlirOpPrintingFlagsCreate();
        mlir_sys::mlirOpPrintingFlagsElideLargeElementsAttrs(flags, elide_larger as isize);
        mlir_sys::mlirOpPrintingFlagsElideLargeResourceString(flags, 0);
        mlir_sys::mlirOperationPrintWithFlags(
            mlir_sys::mlirModuleGetOperation(module.to_raw()),
            flags,
            Some(append),
            (&raw mut out).cast(),
        );
        mlir_sys::mlirOpPrintingFlagsDestroy(flags);
    }
    out
}
