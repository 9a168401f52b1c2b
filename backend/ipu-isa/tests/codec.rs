//! The codec against the published vectors, and over random operands and words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ipu_isa::{
    BundleError, COISSUE_BIT, Coissue, Decoded, EncodeError, Instruction, Opcode, check_bundle,
    decode, decode_instruction, encode, send_pic_pair, table, value_limits,
};
use proptest::prelude::*;
use serde_json::Value;

struct Vector {
    asm: String,
    words: Vec<u32>,
    formats: Vec<String>,
}

fn vectors() -> Vec<Vector> {
    let parse = |line: &str| {
        let v: Value = serde_json::from_str(line).unwrap();
        let bytes = v["bytes"].as_str().unwrap();
        let byte = |i: usize| u8::from_str_radix(&bytes[2 * i..2 * i + 2], 16).unwrap();
        let words = (0..bytes.len() / 8)
            .map(|w| u32::from_le_bytes([0, 1, 2, 3].map(|b| byte(4 * w + b))))
            .collect();
        let formats = match &v["format"] {
            Value::Array(list) => list
                .iter()
                .map(|f| f.as_str().unwrap().to_string())
                .collect(),
            one => vec![one.as_str().unwrap().to_string()],
        };
        Vector {
            asm: v["asm"].as_str().unwrap().to_string(),
            words,
            formats,
        }
    };
    include_str!("data/isa_vectors.jsonl")
        .lines()
        .map(parse)
        .collect()
}

#[test]
fn every_vector_decodes_to_its_format_and_encodes_back() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 1192);
    for v in &vectors {
        let two_words = v.formats.last().is_some_and(|f| f == "payload");
        for (word, name) in v
            .words
            .iter()
            .zip(&v.formats)
            .filter(|(_, n)| *n != "payload")
        {
            let d = decode(*word).unwrap_or_else(|| panic!("{} does not decode", v.asm));
            assert_eq!(&d.format().name, name, "{}", v.asm);
            let flag = if two_words { 0 } else { word & COISSUE_BIT };
            assert_eq!(d.word() | flag, *word, "{}", v.asm);
            assert_eq!(Decoded::new(d.format, &d.values()), Ok(d), "{}", v.asm);
            let linear = |f: &&ipu_isa::Format| word & f.mask == f.matches;
            assert_eq!(
                table().formats().iter().filter(linear).count(),
                1,
                "{}",
                v.asm
            );
        }
        if v.words.len() == 1 || two_words {
            let i = decode_instruction(&v.words).unwrap();
            assert_eq!(i.words(), v.words, "{}", v.asm);
        }
    }
}

#[test]
fn printed_text_is_the_published_one_except_for_aliases() {
    let mut equal = 0;
    for v in vectors().iter().filter(|v| v.words.len() == 1) {
        let text = decode(v.words[0]).unwrap().to_string();
        let mnemonic = v.asm.split(' ').next().unwrap();
        if text == v.asm {
            equal += 1;
            continue;
        }
        let input_only = [
            "mov", "zero", "put", "addz", "cmpeqs", "maxs", "mins", "subs",
        ];
        let symbolic =
            v.asm.contains("SYNCZONE") || v.asm.contains("0x") || v.asm.contains("$TILE");
        assert!(
            input_only.contains(&mnemonic) || symbolic,
            "{} prints as {text}",
            v.asm
        );
    }
    assert!(equal > 1100, "{equal}");
}

#[test]
fn bundles_are_one_main_and_one_aux() {
    // { add $m1, $m2, $m3 ; add $m4, $m5, $m6 } is in the vectors as two words that are no bundle.
    assert_eq!(decode_instruction(&[0xc420_3011, 0xc450_6041]), None);
    let main = decode(0x4420_3011).unwrap();
    let aux = decode(ipu_isa::FNOP).unwrap();
    assert_eq!(check_bundle(&main, &aux), Ok(()));
    let bundle = Instruction::Bundle(main, aux);
    assert_eq!(decode_instruction(&bundle.words()), Some(bundle));
    assert_eq!(bundle.to_string(), "{ add $m1, $m2, $m3 ; fnop }");
    // A set flag on the first word only, or no second word.
    assert_eq!(
        decode_instruction(&[main.word() | COISSUE_BIT, aux.word()]),
        None
    );
    assert_eq!(decode_instruction(&[main.word() | COISSUE_BIT]), None);
    assert_eq!(decode_instruction(&[]), None);

    let swapped = check_bundle(&aux, &main);
    assert!(matches!(
        swapped,
        Err(BundleError::Pipeline { wanted: "main", .. })
    ));
    let exit = decode(0x4300_4000).unwrap();
    assert_eq!(
        check_bundle(&exit, &aux),
        Err(BundleError::Solo("exitz".into()))
    );

    let format = |name: &str| table().by_name(name).unwrap().id;
    let load = Decoded::new(format("ld128_mman_zi"), &[4, 0, 15, 0]).unwrap();
    let pair = Decoded::new(format("f16v4add_aaan"), &[6, 0, 2]).unwrap();
    let clash = BundleError::SameDestination {
        file: 'a',
        number: 6,
    };
    assert_eq!(check_bundle(&load, &pair), Err(clash.clone()));
    assert_eq!(
        clash.to_string(),
        "both instructions of the bundle write `$a6`"
    );
    // Decoding keeps such a bundle: hardware faults when it runs.
    assert!(decode_instruction(&Instruction::Bundle(load, pair).words()).is_some());
}

#[test]
fn sendpicp_takes_its_data_word() {
    let i = decode_instruction(&[0xf660_0000, 0x0301_4048]).unwrap();
    assert_eq!(i.to_string(), "sendpicp 51, 0, 0, 0, 192, 81992");
    let Instruction::SendPicPair { head, xpic, pic } = i else {
        panic!("{i}")
    };
    assert_eq!((head.opcode, xpic, pic), (Opcode::Sendpicp, 192, 81992));
    assert_eq!(send_pic_pair(head, 192, 81992), Ok(i));
    assert!(send_pic_pair(head, 1 << 14, 0).is_err());
    assert!(send_pic_pair(decode(ipu_isa::NOP).unwrap(), 0, 0).is_err());
    assert_eq!(decode_instruction(&[0xf660_0000]), None);
}

#[test]
fn encode_errors_name_operand_value_and_limits() {
    let format = |name: &str| table().by_name(name).unwrap().id;
    let message =
        |name: &str, values: &[i64]| encode(format(name), values).unwrap_err().to_string();
    assert_eq!(
        message("add_mmmn_si", &[0, 0, 40000]),
        "operand `imm` is 40000, allowed are -32768 to 32767"
    );
    assert_eq!(
        message("f16v4add_aaan", &[1, 0, 0]),
        "operand `dst` is 1, which is not a multiple of 2"
    );
    assert_eq!(
        message("bri_mmmn_zi", &[6]),
        "operand `target` is 6, which is not a multiple of 4"
    );
    assert_eq!(
        message("abs_mmmn", &[1]),
        "`abs_mmmn` takes 2 operands, not 1"
    );
    assert!(matches!(
        encode(format("or_mmmn_iz"), &[0, 0, 0x10_0001]),
        Err(EncodeError::Misaligned {
            align: 0x10_0000,
            ..
        })
    ));
    assert_eq!(
        encode(format("or_mmmn_iz"), &[0, 0, 0xfff0_0000]),
        Ok(0x4200_cfff)
    );
}

#[test]
fn odd_pairs_and_misaligned_quads_do_not_decode() {
    let word = |name: &str, bits: u32| table().by_name(name).unwrap().matches | bits;
    assert!(decode(word("ld64_mman_zi", 1 << 16)).is_none());
    assert!(decode(word("ld128_mman_zi", 2 << 16)).is_none());
    assert!(decode(word("ld2xst64pace_mbbn_ef", 2 << 16)).is_none());
    assert!(decode(word("ld2xst64pace_mbbn_ef", 4 << 16)).is_some());
    assert!(
        decode(u32::MAX >> 1).is_some(),
        "send with all operand bits set"
    );
    assert!(decode(0x3fff_ffff).is_none(), "undefined word");
}

/// A format with legal values for its operands.
fn legal() -> impl Strategy<Value = (usize, Vec<i64>)> {
    let formats = table().formats();
    (0..formats.len()).prop_flat_map(move |at| {
        let value = |o: &ipu_isa::Operand| {
            let (min, max, align) = value_limits(o.kind);
            (min / align..=max / align).prop_map(move |v| v * align)
        };
        (
            Just(at),
            formats[at].operands.iter().map(value).collect::<Vec<_>>(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn legal_operands_survive_encode_and_decode((at, values) in legal()) {
        let format = &table().formats()[at];
        let word = encode(format.id, &values).unwrap();
        let d = decode(word).unwrap();
        prop_assert_eq!(d.format, format.id);
        prop_assert_eq!(d.values(), values);
        if format.coissue == Coissue::Coissue {
            prop_assert_eq!(decode(word | COISSUE_BIT), Some(d));
        }
    }

    #[test]
    fn any_words_decode_or_not_without_panic(words in prop::collection::vec(any::<u32>(), 0..3)) {
        if let Some(i) = decode_instruction(&words) {
            prop_assert_eq!(&i.words()[..], &words[..i.word_count() as usize]);
            prop_assert!(!i.to_string().is_empty());
        }
    }

    #[test]
    fn any_values_encode_or_not_without_panic(
        at in 0..368usize,
        values in prop::collection::vec(any::<i64>(), 0..7),
    ) {
        let _ = encode(table().formats()[at].id, &values);
    }
}

#[test]
fn every_format_decodes_at_its_operand_limits() {
    for format in table().formats() {
        for pick in [0, 1] {
            let limit = |o: &ipu_isa::Operand| {
                let (min, max, _) = value_limits(o.kind);
                if pick == 0 { min } else { max }
            };
            let values: Vec<i64> = format.operands.iter().map(limit).collect();
            let d = decode(encode(format.id, &values).unwrap()).unwrap();
            assert_eq!(
                (d.format, d.values()),
                (format.id, values),
                "{}",
                format.name
            );
        }
    }
}
