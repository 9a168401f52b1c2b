//! The certificate of a schedule as a dictionary: readable in a dump, and read back without loss.

use super::Read;
use crate::ffi;
use crate::ir::attribute_str;
use ipu_program::tile::{Bound, Certificate};
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, IntegerAttribute, StringAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, AttributeLike, Identifier, OperationRef};

/// Writes dictionaries.
struct Builder<'c>(&'c Context);

impl<'c> Builder<'c> {
    fn int(&self, n: u64) -> Attribute<'c> {
        // As the bits of a signed number: what is counted stays far below.
        IntegerAttribute::new(IntegerType::new(self.0, 64).into(), n as i64).into()
    }

    fn text(&self, s: &str) -> Attribute<'c> {
        StringAttribute::new(self.0, s).into()
    }

    fn dictionary(&self, entries: &[(&str, Attribute<'c>)]) -> Attribute<'c> {
        let named: Vec<mlir_sys::MlirNamedAttribute> = entries
            .iter()
            .map(|(name, value)| mlir_sys::MlirNamedAttribute {
                name: Identifier::new(self.0, name).to_raw(),
                attribute: value.to_raw(),
            })
            .collect();
        // SAFETY: names and values are of this context, and the list lives during the call.
        unsafe {
            Attribute::from_raw(mlir_sys::mlirDictionaryAttrGet(
                self.0.to_raw(),
                named.len() as isize,
                named.as_ptr(),
            ))
        }
    }

    fn bound(&self, b: &Bound) -> Attribute<'c> {
        let mut entries = vec![
            ("resource", self.text(&b.resource)),
            ("events", self.int(b.events.into())),
            ("tile", self.int(b.tile.into())),
        ];
        entries.extend(b.element.map(|e| ("element", self.int(e.into()))));
        self.dictionary(&entries)
    }
}

/// The dictionary of a certificate.
pub(super) fn build<'c>(context: &'c Context, c: &Certificate) -> Option<Attribute<'c>> {
    let b = Builder(context);
    let bounds: Vec<_> = c.bounds.iter().map(|x| b.bound(x)).collect();
    let mut entries = vec![
        ("transfers", b.int(c.transfers.into())),
        ("messages", b.int(c.messages.into())),
        ("words", b.int(c.words)),
        ("bounds", ArrayAttribute::new(context, &bounds).into()),
        ("binding", b.text(&c.binding)),
        ("controls", b.int(c.controls.into())),
        ("row_words", b.int(c.row_words)),
        ("row_words_max", b.int(c.row_words_max.into())),
        ("row_words_tile", b.int(c.row_words_tile.into())),
        ("construction", b.text(&c.construction)),
        ("limit", b.text(&c.limit)),
    ];
    entries.extend(c.same_as.iter().map(|s| ("same_as", b.text(s))));
    Some(b.dictionary(&entries))
}

/// Reads a dictionary; `prefix` says where, in messages.
struct Reader<'c> {
    dictionary: Attribute<'c>,
    prefix: &'static str,
}

impl<'c> Reader<'c> {
    fn new(dictionary: Attribute<'c>, prefix: &'static str) -> Read<Self> {
        // SAFETY: any attribute may be asked.
        if unsafe { mlir_sys::mlirAttributeIsADictionary(dictionary.to_raw()) } {
            Ok(Reader { dictionary, prefix })
        } else {
            Err(format!("has a {prefix} that is not a dictionary"))
        }
    }

    fn get(&self, name: &str) -> Option<Attribute<'c>> {
        // SAFETY: a dictionary; null becomes `None`.
        unsafe {
            Attribute::from_option_raw(mlir_sys::mlirDictionaryAttrGetElementByName(
                self.dictionary.to_raw(),
                ffi::text(name),
            ))
        }
    }

    fn wrong(&self, name: &str, what: &str) -> String {
        format!("has a {} whose {name} is not {what}", self.prefix)
    }

    fn long(&self, name: &str) -> Read<u64> {
        let value = self
            .get(name)
            .and_then(|a| IntegerAttribute::try_from(a).ok());
        let value = value.filter(|v| {
            // SAFETY: the type of an integer attribute; the width of its type is asked only where
            // it is one.
            unsafe {
                let ty = mlir_sys::mlirAttributeGetType(v.to_raw());
                mlir_sys::mlirTypeIsAInteger(ty)
                    && mlir_sys::mlirIntegerTypeIsSignless(ty)
                    && mlir_sys::mlirIntegerTypeGetWidth(ty) == 64
            }
        });
        let value = value.ok_or_else(|| self.wrong(name, "a 64-bit number"))?;
        Ok(value.value() as u64)
    }

    fn word(&self, name: &str) -> Read<u32> {
        u32::try_from(self.long(name)?).map_err(|_| self.wrong(name, "a 32-bit number"))
    }

    fn text(&self, name: &str) -> Read<String> {
        let text = self.get(name).and_then(attribute_str).map(str::to_owned);
        text.ok_or_else(|| self.wrong(name, "a text"))
    }
}

/// The certificate of an exchange, if it has one.
pub(super) fn read(op: OperationRef<'_, '_>) -> Read<Option<Certificate>> {
    let Ok(attribute) = op.attribute("certificate") else {
        return Ok(None);
    };
    let r = Reader::new(attribute, "certificate")?;
    let list = r.get("bounds").filter(|a| a.is_array());
    let list = list.ok_or_else(|| r.wrong("bounds", "a list"))?;
    // SAFETY: an array, and indices below its length.
    let elements: Vec<Attribute<'_>> = unsafe {
        (0..mlir_sys::mlirArrayAttrGetNumElements(list.to_raw()))
            .map(|i| Attribute::from_raw(mlir_sys::mlirArrayAttrGetElement(list.to_raw(), i)))
            .collect()
    };
    let bounds = elements.into_iter().map(|a| {
        let b = Reader::new(a, "bound of the certificate")?;
        Ok(Bound {
            resource: b.text("resource")?,
            events: b.word("events")?,
            tile: b.word("tile")?,
            element: b.get("element").map(|_| b.word("element")).transpose()?,
        })
    });
    Ok(Some(Certificate {
        transfers: r.word("transfers")?,
        messages: r.word("messages")?,
        words: r.long("words")?,
        bounds: bounds.collect::<Read<_>>()?,
        binding: r.text("binding")?,
        controls: r.word("controls")?,
        row_words: r.long("row_words")?,
        row_words_max: r.word("row_words_max")?,
        row_words_tile: r.word("row_words_tile")?,
        construction: r.text("construction")?,
        limit: r.text("limit")?,
        same_as: r.get("same_as").map(|_| r.text("same_as")).transpose()?,
    }))
}
