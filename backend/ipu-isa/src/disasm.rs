//! Words to text, also where they are no legal program.
//!
//! [`decode_instruction`](crate::decode_instruction) gives what a context executes; this module
//! gives what the bytes say: two flagged words print as a bundle even when the chip would refuse
//! them together, and undefined words keep their place.

use std::fmt;

use crate::codec::{COISSUE_BIT, Decoded, Instruction, check_bundle, decode, decode_instruction};

/// What stands at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A legal instruction or bundle.
    Instruction(Instruction),
    /// Two flagged words that are no legal bundle, with the reason.
    BadBundle(Decoded, Decoded, String),
    /// A word that is no instruction, or not in this place.
    Undefined(u32),
}

impl Item {
    /// Reads the item at the start of `words`; `None` at the end.
    pub fn read(words: &[u32]) -> Option<Item> {
        let (&first, rest) = words.split_first()?;
        if let Some(i) = decode_instruction(words) {
            if let Instruction::Bundle(main, aux) = &i
                && let Err(e) = check_bundle(main, aux)
            {
                return Some(Item::BadBundle(*main, *aux, e.to_string()));
            }
            return Some(Item::Instruction(i));
        }
        if let (Some(head), Some(&second)) = (decode(first), rest.first())
            && let Some(aux) = decode(second)
            && first & second & COISSUE_BIT != 0
            && let Err(e) = check_bundle(&head, &aux)
            && head.format().can_bundle()
            && aux.format().can_bundle()
        {
            return Some(Item::BadBundle(head, aux, e.to_string()));
        }
        Some(Item::Undefined(first))
    }

    /// Length in words.
    pub fn word_count(&self) -> usize {
        match self {
            Item::Instruction(i) => i.word_count() as usize,
            Item::BadBundle(..) => 2,
            Item::Undefined(_) => 1,
        }
    }

    /// The instructions in it.
    pub fn decoded(&self) -> Vec<Decoded> {
        match self {
            Item::Instruction(Instruction::Single(d)) => vec![*d],
            Item::Instruction(Instruction::SendPicPair { head, .. }) => vec![*head],
            Item::Instruction(Instruction::Bundle(a, b)) | Item::BadBundle(a, b, _) => {
                vec![*a, *b]
            }
            Item::Undefined(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Instruction(i) => write!(f, "{i}"),
            Item::BadBundle(a, b, _) => write!(f, "{{ {a} ; {b} }}"),
            Item::Undefined(word) => write!(f, ".long {word:#010x}"),
        }
    }
}

/// All items of a text with their word positions.
pub fn items(words: &[u32]) -> impl Iterator<Item = (usize, Item)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let item = Item::read(words.get(at..)?)?;
        let place = at;
        at += item.word_count();
        Some((place, item))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_its_place() {
        let words = [
            0x44203011, // add
            0xc4203011,
            0xc4506041, // two main instructions
            0x99e00000,
            0x9ad00000, // nop, fnop
            0xffff_fffe,
            0xc4203011,  // sendpicp
            0x0fff_ffff, // not defined
            0xc4203011,  // half a bundle
        ];
        let found: Vec<(usize, String)> =
            items(&words).map(|(at, i)| (at, i.to_string())).collect();
        assert_eq!(found[0], (0, "add $m1, $m2, $m3".to_string()));
        assert_eq!(
            found[1],
            (1, "{ add $m1, $m2, $m3 ; add $m4, $m5, $m6 }".to_string())
        );
        assert_eq!(found[2], (3, "{ nop ; fnop }".to_string()));
        assert!(found[3].1.starts_with("sendpicp"), "{}", found[3].1);
        assert_eq!(found[5], (8, ".long 0xc4203011".to_string()));
        assert_eq!(found.len(), 6);
    }
}
