use super::codec::{self, Codec};
use super::container::{Contents, assemble, assemble_stored, contents};
use super::*;
use ipu_program::graph::{BinaryKind, OpKind};
use ipu_program::layout::{ElementOrder, MemoryClass, Split};
use ipu_program::types::ElementType;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn layout(parts: u32) -> Layout {
    Layout {
        rows: Split {
            parts,
            block: 2,
            stride: 1,
            unit: 1,
            period: 0,
            group: 0,
            group_stride: 0,
        },
        columns: Split::whole(3),
        copies: 1,
        copy_stride: 0,
        first_tile: 0,
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
    }
}

fn small() -> Package {
    let ty = TensorType::new([4, 3], ElementType::F16);
    let bias = TensorType::new([3], ElementType::F16);
    let binding = |source, model: &TensorType, name: &str, address| Binding {
        source,
        model: model.clone(),
        name: name.into(),
        buffer: ty.clone(),
        layout: layout(2),
        address,
    };
    let target = Target::ipu21();
    let mut images = ImagesBuilder::new();
    for tile in [1, 0] {
        images.segment(tile, target.load_base, &[1, 2, 3, 4, 5, 6, 7, 8]);
        images.segment(tile, 0x60000, &[tile as u8; 4]);
    }
    let metadata = Metadata {
        function: "main".into(),
        inputs: vec![ty.clone()],
        outputs: vec![ty.clone()],
        entry: target.load_base,
        calls: HostCall::PROTOCOL.to_vec(),
        host: Vec::new(),
        bindings: vec![
            binding(Source::Input(0), &ty, "x", 0x61000),
            binding(Source::Parameter("fc.bias".into()), &bias, "b", 0x62000),
            binding(Source::Constant(vec![0.5]), &bias, "c", 0x63000),
            binding(Source::Output(0), &ty, "y", 0xe7ffc - 2 * 16 * 2),
        ],
        steps: vec![StepSummary {
            name: "add".into(),
            kind: StepKind::Compute,
            location: "m.mlir:3:5".into(),
            scheduled_cycles: 123,
        }],
        places: vec![StepPlaces {
            tiles: vec![(0, 2)],
            starts: vec![target.load_base, target.load_base + 8],
        }],
        estimated_cycles: 100,
        scheduled_cycles: 123,
        peak_memory: PeakMemory {
            bytes: 1000,
            tile: 1,
        },
    };
    let symbol = |name: &str, address, tile| Symbol {
        address,
        name: name.into(),
        bytes: 8,
        kind: SymbolKind::Code,
        tile,
    };
    let symbols = vec![
        symbol("table", 0x60000, Some(1)),
        symbol("_start", target.load_base, None),
    ];
    let mut package = Package::new(target, metadata, images.finish(), symbols);
    package.provenance = Provenance {
        input: "m.mlir".into(),
        input_sha256: [7; 32],
        flags: vec![("tiles".into(), "2".into())],
        seed: None,
    };
    package.description = Description {
        buffers: vec![BufferPlace {
            name: "x".into(),
            ty,
            layout: layout(2),
            address: 0x61000,
            reserved: 64,
            live: Some((0, 0)),
            location: "m.mlir:2:5".into(),
        }],
        steps: vec![StepDetail {
            kernel: Some("add_f16".into()),
            tiles: vec![(0, 2)],
            phase: None,
        }],
        rows_area: None,
        runtime_state: (0x58000, 0x600),
        operations: vec![Operation {
            location: "m.mlir:3:5".into(),
            name: "nn.add".into(),
            text: "%0 = nn.add %x, %b".into(),
        }],
        selection: Selection::default(),
    };
    package
}

#[test]
fn round_trip_is_exact_and_deterministic() {
    let package = small();
    let bytes = package.to_bytes().unwrap();
    assert_eq!(Package::from_bytes(&bytes).unwrap(), package);
    assert_eq!(small().to_bytes().unwrap(), bytes);
    assert_eq!(package.images.blobs().len(), 3);
    let segments: Vec<_> = package
        .images
        .segments(&package.images.tiles()[1])
        .collect();
    assert_eq!(
        segments,
        [
            (0x4c010, &[1, 2, 3, 4, 5, 6, 7, 8][..]),
            (0x60000, &[1; 4][..])
        ]
    );
    let header = Header::read(&bytes).unwrap();
    assert_eq!(
        (header.target.as_str(), header.digest_hex().len()),
        ("ipu21", 64)
    );
}

#[test]
fn every_flipped_bit_is_refused() {
    let bytes = small().to_bytes().unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                Package::from_bytes(&damaged).is_err(),
                "byte {at} bit {bit}"
            );
        }
    }
}

#[test]
fn every_truncation_and_addition_is_refused() {
    let bytes = small().to_bytes().unwrap();
    for length in 0..bytes.len() {
        assert!(Package::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    for extra in [0u8, 1] {
        let mut longer = bytes.clone();
        longer.push(extra);
        let message = Package::from_bytes(&longer).unwrap_err().to_string();
        let (found, expected) = (longer.len(), bytes.len());
        assert_eq!(
            message,
            format!(
                "package: the file has {found} bytes, expected {expected}: it is truncated or has trailing data"
            )
        );
    }
}

#[test]
fn messages_name_what_was_found_and_expected() {
    let bytes = small().to_bytes().unwrap();
    let damage = |at: usize, value: u8| {
        let mut damaged = bytes.clone();
        damaged[at] = value;
        Package::from_bytes(&damaged).unwrap_err().to_string()
    };
    assert_eq!(
        damage(6, b'\n'),
        "package: magic is \"IPUEXE\\n\\n\", expected \"IPUEXE\\r\\n\": this is not an ipuexe file, or it was changed by a text conversion"
    );
    assert_eq!(
        damage(8, 1),
        "package: format version 1, written by tools 0.1.0; these tools 0.1.0 read version 5: compile the model again with these tools, or run the package with tools 0.1.0"
    );
    assert!(damage(60, b'x').starts_with("package: section 'header': checksum is "));
    let last = bytes.len() - 1;
    assert!(damage(last, !bytes[last]).starts_with("package: section 'description': checksum is "));
}

#[test]
fn contents_are_checked() {
    let refuse = |change: &dyn Fn(&mut Package)| {
        let mut package = small();
        change(&mut package);
        package.to_bytes().unwrap_err().to_string()
    };
    let binding = |change: &dyn Fn(&mut Binding)| refuse(&|p| change(&mut p.metadata.bindings[0]));
    assert_eq!(
        binding(&|b| b.address = 0xe7ffc),
        "package: section 'metadata': binding 'x': address is 0xe7ffc, expected a multiple of 4 within 0x4c000..=0xe7fc0 for 64 bytes"
    );
    assert_eq!(
        binding(&|b| b.layout.first_tile = 1471),
        "package: section 'metadata': binding 'x': last tile is 1472, expected below 1472"
    );
    assert_eq!(
        binding(&|b| b.layout.rows.stride = 0),
        "package: section 'metadata': binding 'x': shards is two on tile 0, expected one a tile"
    );
    assert_eq!(
        binding(&|b| b.layout.rows.parts = 1),
        "package: section 'metadata': binding 'x': rows is 2 in the layout, expected at least 4"
    );
    assert_eq!(
        binding(&|b| b.source = Source::Input(1)),
        "package: section 'metadata': binding 'x': input is 1, expected below 1"
    );
    assert_eq!(
        refuse(&|p| p.metadata.bindings.truncate(3)),
        "package: section 'metadata': bindings of output 0 is 0, expected 1"
    );
    assert_eq!(
        refuse(&|p| p.metadata.calls.truncate(2)),
        "package: section 'metadata': host calls is [Initialize, Inputs], expected [Initialize, Inputs, Outputs]"
    );
    assert_eq!(
        refuse(&|p| p.metadata.places[0].tiles[0] = (1471, 2)),
        "package: section 'metadata': tiles of steps is 2 from 1471, expected below 1472"
    );
    assert_eq!(
        refuse(&|p| p.metadata.steps.clear()),
        "package: section 'metadata': starts of steps is [4c010, 4c018], expected 1 ascending addresses"
    );
    assert_eq!(
        refuse(&|p| p.metadata.peak_memory.tile = 2),
        "package: section 'metadata': tile of the peak memory is 2, expected one with an image"
    );
    assert_eq!(
        refuse(&|p| p.metadata.peak_memory.bytes = 11),
        "package: section 'metadata': bytes of the peak memory is 11, expected 12 to 638976"
    );
    assert_eq!(
        refuse(&|p| p.metadata.entry = 0x70000),
        "package: section 'images': tile 0: segment with the entry 0x70000 is absent, expected present"
    );
    assert_eq!(
        refuse(&|p| p.images.tiles[0].segments[1].address = 0x4c014),
        "package: section 'images': tile 0: address of segment 1 is 0x4c014, expected behind the previous segment, within 0x4c018..0xe7bb0"
    );
    assert_eq!(
        refuse(&|p| p.images.tiles[1].tile = 1472),
        "package: section 'images': tile is 1472, expected ascending, 1 to 1471"
    );
    assert_eq!(
        refuse(&|p| p.images.blobs.push(vec![7])),
        "package: section 'blobs': blob 3 is unused, expected used by a segment"
    );
    assert_eq!(
        refuse(&|p| p.symbols.swap(0, 1)),
        "package: section 'symbols': '_start' is out of order, expected sorted by address and name"
    );
}

#[test]
fn another_target_is_refused() {
    let mut package = small();
    package.target = "ipu1".into();
    let bytes = container::encode(&package).unwrap();
    assert_eq!(
        Package::from_bytes(&bytes).unwrap_err().to_string(),
        "package: section 'header': target is ipu1, expected ipu21"
    );
}

#[test]
fn a_file_is_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.ipuexe");
    small().write_atomic(&path).unwrap();
    assert_eq!(Package::read(&path).unwrap(), small());
    let mut bad = small();
    bad.metadata.calls.clear();
    bad.write_atomic(&path).unwrap_err();
    assert_eq!(Package::read(&path).unwrap(), small());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let missing = dir.path().join("no/m.ipuexe");
    assert!(
        small()
            .write_atomic(&missing)
            .unwrap_err()
            .to_string()
            .contains("no/m.ipuexe")
    );
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(container::MAGIC);
            bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        }
        prop_assert!(Package::from_bytes(&bytes).is_err());
    }

    /// Contents changed behind valid checksums are decoded or refused, never more.
    #[test]
    fn changed_contents_never_panic(
        section in 0usize..Section::ALL.len(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut: bool,
    ) {
        let bytes = with_host_function().to_bytes().unwrap();
        let header = Header::read(&bytes).unwrap();
        let mut contents = contents(&bytes, &header).unwrap();
        for (at, value) in changes {
            let content = &mut contents[section];
            let at = at.index(content.len());
            content[at] = value;
            if cut {
                content.truncate(at.max(1));
            }
        }
        let bytes = assemble("ipu21", "0.1.0", &contents).unwrap();
        if let Ok(package) = Package::from_bytes(&bytes) {
            prop_assert_eq!(Package::from_bytes(&package.to_bytes().unwrap()).unwrap().to_bytes().unwrap(), package.to_bytes().unwrap());
        }
    }
}

#[test]
fn places_name_the_step() {
    let metadata = small().metadata;
    let base = Target::ipu21().load_base;
    let name = |tile, address| metadata.step_at(tile, address).map(|(n, s)| (n, &*s.name));
    assert_eq!(name(1, base), Some((0, "add")));
    assert_eq!(name(0, base + 4), Some((0, "add")));
    for (tile, address) in [(2, base), (0, base - 4), (0, base + 8)] {
        assert_eq!(name(tile, address), None, "{tile} {address:#x}");
    }
}

/// The small package with its parameter as the sum of a parameter and a constant.
fn with_host_function() -> Package {
    let mut package = small();
    let ty = package.metadata.bindings[1].model.clone();
    let op = |kind, operands: &[u32]| HostOp {
        kind,
        operands: operands.to_vec(),
        ty: ty.clone(),
        location: "m.mlir:2:3".into(),
    };
    package.metadata.host = vec![HostFunction {
        name: "host0".into(),
        inputs: vec![],
        ops: vec![
            op(
                OpKind::Parameter {
                    name: "fc.bias".into(),
                },
                &[],
            ),
            op(OpKind::Constant { values: vec![0.5] }, &[]),
            op(OpKind::Binary(BinaryKind::Add), &[0, 1]),
        ],
        results: vec![2],
    }];
    package.metadata.bindings[1].source = Source::Host {
        function: 0,
        result: 0,
    };
    package
}

#[test]
fn host_functions_survive_files_and_graphs() {
    let package = with_host_function();
    let bytes = package.to_bytes().unwrap();
    assert_eq!(Package::from_bytes(&bytes).unwrap(), package);
    let program = TileProgram {
        host: package.metadata.host_graphs(),
        ..TileProgram::default()
    };
    assert_eq!(
        HostFunction::of_program(&program).unwrap(),
        package.metadata.host
    );
    let mut early = program;
    early.host[0].ops.swap(0, 2);
    assert_eq!(
        HostFunction::of_program(&early).unwrap_err().to_string(),
        "host function 'host0' reads a value before it is computed"
    );
}

#[test]
fn arguments_of_host_steps_are_the_inputs() {
    let mut package = with_host_function();
    let inputs = package.metadata.inputs.clone();
    let function = &mut package.metadata.host[0];
    for op in &mut function.ops {
        for operand in &mut op.operands {
            *operand += inputs.len() as u32;
        }
    }
    function.results[0] += inputs.len() as u32;
    function.inputs = inputs;
    let refused = |package: &Package| {
        let message = package.to_bytes().unwrap_err().to_string();
        let start = "package: section 'metadata': ";
        message.strip_prefix(start).unwrap().to_owned()
    };
    assert_eq!(
        refused(&package),
        "binding 'b': function of the host is 0, expected one without arguments, for the \
         initialization"
    );
    let step = Source::HostStep {
        function: 0,
        result: 0,
    };
    package.metadata.bindings[1].source = step.clone();
    let bytes = package.to_bytes().unwrap();
    let read = Package::from_bytes(&bytes).unwrap();
    assert_eq!(read, package);
    let graphs = read.metadata.host_graphs();
    assert_eq!(graphs[0].inputs.len(), package.metadata.inputs.len());
    let program = TileProgram {
        host: graphs,
        ..TileProgram::default()
    };
    assert_eq!(
        HostFunction::of_program(&program).unwrap(),
        package.metadata.host
    );
    let mut none = with_host_function();
    none.metadata.bindings[1].source = step;
    assert_eq!(
        refused(&none),
        "binding 'b': function of the host is 0, expected one with arguments, for a step of each run"
    );
    package.metadata.host[0].inputs[0].shape.push(1);
    assert!(refused(&package).starts_with("host function 'host0': arguments is "));
}

#[test]
fn host_functions_are_checked() {
    let refuse = |change: &dyn Fn(&mut HostFunction)| {
        let mut package = with_host_function();
        change(&mut package.metadata.host[0]);
        let message = package.to_bytes().unwrap_err().to_string();
        let start = "package: section 'metadata': ";
        message.strip_prefix(start).unwrap().to_owned()
    };
    let binding = |function, result| {
        let mut package = with_host_function();
        package.metadata.bindings[1].source = Source::Host { function, result };
        package.to_bytes().unwrap_err().to_string()
    };
    assert_eq!(
        binding(1, 0),
        "package: section 'metadata': binding 'b': function of the host is 1, expected below 1"
    );
    assert_eq!(
        binding(0, 1),
        "package: section 'metadata': binding 'b': result of the host is 1, expected below 1"
    );
    assert_eq!(
        refuse(&|f| f.results[0] = 3),
        "host function 'host0': operator of result 0 is 3, expected below 3"
    );
    // An operator that reads itself or a later one.
    for operand in [2, 3, u32::MAX] {
        assert_eq!(
            refuse(&|f| f.ops[2].operands[1] = operand),
            format!("host function 'host0': operand of operator 2 is {operand}, expected below 2")
        );
    }
    assert_eq!(
        refuse(&|f| f.ops[2].kind = OpKind::MATMUL),
        "host function 'host0': kind of operator 2 is nn.matmul, expected one that fits its types: needs matrices: lhs is tensor<3xf16>, rhs is tensor<3xf16>"
    );
    assert_eq!(
        refuse(&|f| f.ops[1].kind = OpKind::Constant {
            values: vec![1.0, 2.0]
        }),
        "host function 'host0': kind of operator 1 is nn.constant, expected one that fits its types: result is tensor<3xf16>, expected 2 elements, one for each value"
    );
    assert_eq!(
        refuse(&|f| f.ops[0].kind = OpKind::Parameter {
            name: String::new()
        }),
        "host function 'host0': parameter name of operator 0 is '', expected a key of the weights file"
    );
    assert_eq!(
        refuse(&|f| f.ops[0].kind = OpKind::Repeat {
            count: 1,
            body: Box::default()
        }),
        "host function 'host0': kind of operator 0 is nn.repeat, expected no repeat"
    );
    assert_eq!(
        refuse(&|f| f.ops[0].ty.shape = vec![0]),
        "host function 'host0': shape of operator 0 is tensor<0xf16>, expected 1 to 2147483648 elements"
    );
    // The tensors of a function together are bounded.
    assert_eq!(
        refuse(&|f| f.ops.iter_mut().for_each(|op| op.ty.shape = vec![1 << 30])),
        "host function 'host0': elements of all tensors is 3221225472, expected at most 2147483648"
    );
    // Another type than the binding has.
    assert_eq!(
        refuse(&|f| f.ops.iter_mut().for_each(|op| op.ty.shape = vec![1])),
        "binding 'b': type is tensor<3xf16>, expected tensor<1xf16>"
    );
}

#[test]
fn a_file_cannot_hold_an_unknown_operator() {
    let package = with_host_function();
    let bytes = package.to_bytes().unwrap();
    let header = Header::read(&bytes).unwrap();
    let contents: Contents = contents(&bytes, &header).unwrap();
    let metadata = Section::Metadata as usize;
    // The position of the kind of the first operator: before the length of its parameter's name.
    let name = b"\x07fc.bias";
    let at = contents[metadata]
        .windows(name.len())
        .position(|w| w == name)
        .unwrap()
        - 1;
    assert_eq!(contents[metadata][at], 0);
    // One kind after the last that a file knows is `Repeat`.
    for kind in [21, 22, 99] {
        let mut contents = contents.clone();
        contents[metadata][at] = kind;
        let bytes = assemble("ipu21", "0.1.0", &contents).unwrap();
        assert!(Package::from_bytes(&bytes).is_err(), "{kind}");
    }
}

/// Sections of the small package as they are stored, with one of them replaced.
fn with_stored(section: Section, codec: Codec, bytes: Vec<u8>, decoded: u64) -> Vec<u8> {
    let file = small().to_bytes().unwrap();
    let header = Header::read(&file).unwrap();
    let mut stored: Vec<_> = header
        .sections
        .iter()
        .map(|e| (e.codec, file[e.stored.clone()].to_vec(), e.bytes))
        .collect();
    stored[section as usize] = (codec, bytes, decoded);
    assemble_stored("ipu21", "0.1.0", &stored).unwrap()
}

#[test]
fn what_a_section_decodes_to_is_bounded_before_it_is_decoded() {
    let refuse = |bytes: Vec<u8>| Package::from_bytes(&bytes).unwrap_err().to_string();
    let zeros = |n: usize| zstd::bulk::compress(&vec![0; n], 19).unwrap();
    // 64 MiB of zeros in a few bytes: more than the ratio allows, whatever the table says.
    let bomb = zeros(64 << 20);
    let ratio = bomb.len() as u64 * codec::MAX_RATIO;
    assert!(ratio < 64 << 20);
    assert_eq!(
        refuse(with_stored(
            Section::Blobs,
            Codec::Zstd,
            bomb.clone(),
            64 << 20
        )),
        format!(
            "package: section 'header': decoded length of section 'blobs' is {}, expected at most {ratio}",
            64 << 20
        )
    );
    // A table that says less than there is.
    assert_eq!(
        refuse(with_stored(Section::Blobs, Codec::Zstd, bomb, 1000)),
        "package: section 'blobs': decoded length is more, expected 1000"
    );
    assert_eq!(
        refuse(with_stored(Section::Blobs, Codec::Zstd, zeros(100), 101)),
        "package: section 'blobs': decoded length is 100, expected 101"
    );
    assert_eq!(
        refuse(with_stored(
            Section::Provenance,
            Codec::Plain,
            vec![0; 2 << 20],
            2 << 20
        )),
        format!(
            "package: section 'header': decoded length of section 'provenance' is {}, expected at most {}",
            2 << 20,
            1 << 20
        )
    );
    assert_eq!(
        refuse(with_stored(Section::Blobs, Codec::Plain, vec![0; 8], 9)),
        "package: section 'header': decoded length of section 'blobs' is 9, expected 8"
    );
}

#[test]
fn nothing_follows_a_frame() {
    for extra in [&b"x"[..], &zstd::bulk::compress(b"", 3).unwrap()] {
        let mut bytes = zstd::bulk::compress(&[0; 100], 3).unwrap();
        bytes.extend(extra);
        let message = Package::from_bytes(&with_stored(Section::Blobs, Codec::Zstd, bytes, 100))
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            format!(
                "package: section 'blobs': data behind the zstd frame is {} bytes, expected none",
                extra.len()
            )
        );
    }
    let garbage = with_stored(Section::Blobs, Codec::Zstd, vec![1; 100], 100);
    let message = Package::from_bytes(&garbage).unwrap_err().to_string();
    assert!(
        message.starts_with("package: section 'blobs' cannot be decoded: zstd: "),
        "{message}"
    );
}

#[test]
fn long_sections_are_compressed() {
    let mut package = small();
    package.description.selection.explanation = "again and again ".repeat(1000);
    let bytes = package.to_bytes().unwrap();
    let header = Header::read(&bytes).unwrap();
    let entry = &header.sections[Section::Description as usize];
    assert_eq!(entry.codec, Codec::Zstd);
    assert!(entry.stored.len() < 1000 && entry.bytes > 16_000);
    assert_eq!(Package::from_bytes(&bytes).unwrap(), package);
}

#[test]
fn overlapping_sections_are_refused() {
    let bytes = small().to_bytes().unwrap();
    let header = Header::read(&bytes).unwrap();
    // The offset of the third section, one byte early.
    let at = 100 + 2 * 40 + 16;
    let start = header.sections[2].stored.start as u64;
    let mut damaged = bytes.clone();
    damaged[at..at + 8].copy_from_slice(&(start - 1).to_le_bytes());
    container::seal(&mut damaged);
    assert_eq!(
        Package::from_bytes(&damaged).unwrap_err().to_string(),
        format!(
            "package: section 'header': offset of section 'images' is {}, expected {start}",
            start - 1
        )
    );
}

#[test]
fn descriptions_are_checked() {
    let refuse = |change: &dyn Fn(&mut Description)| {
        let mut package = small();
        change(&mut package.description);
        let message = package.to_bytes().unwrap_err().to_string();
        let start = "package: section 'description': ";
        message.strip_prefix(start).unwrap().to_owned()
    };
    assert_eq!(
        refuse(&|d| d.steps.push(StepDetail::default())),
        "number of steps is 2, expected 0 or 1"
    );
    assert_eq!(
        refuse(&|d| d.steps[0].tiles[0] = (1471, 2)),
        "tiles of step 0 is 2 from 1471, expected one or more below 1472"
    );
    assert_eq!(
        refuse(&|d| d.buffers[0].reserved = u32::MAX),
        "buffer 'x': memory is 0x61000..0x100060fff, expected within 0x4c000..0xe8000"
    );
    assert_eq!(
        refuse(&|d| d.runtime_state = (0x10, 1)),
        "area of runtime state is 0x10..0x11, expected within 0x4c000..0xe8000"
    );
    let message = {
        let mut package = small();
        package.description.buffers[0].layout.first_tile = 1471;
        package.to_bytes().unwrap_err().to_string()
    };
    assert!(
        message.contains("buffer 'x': last tile is 1472"),
        "{message}"
    );
}
