// Registration of dialect tile and the text of its tables; its meaning is in dialects/src/tile/.
#include "hooks.h"

#include "mlir/CAPI/Registration.h"
#include "llvm/ADT/MapVector.h"

#include "TileDialect.h.inc"
#define GET_OP_CLASSES
#include "TileOps.h.inc"

using namespace mlir;

void tile::TileDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "TileOps.cpp.inc"
      >();
}

namespace {
/// Reads a table. A malformed one reads as zeros: printing must survive what verifying refuses.
struct Words {
  ArrayRef<int32_t> words;
  uint32_t next() {
    if (words.empty())
      return 0;
    uint32_t word = words.front();
    words = words.drop_front();
    return word;
  }
  /// Calls `each` as often as the next word says, with whether it is the first.
  void repeat(function_ref<void(bool first)> each) {
    auto count = next();
    for (uint32_t i = 0; i < count && !words.empty(); ++i)
      each(i == 0);
  }
};

/// Buffers by first appearance.
struct BufferTable {
  llvm::MapVector<StringAttr, uint32_t> index;
  ParseResult parse(OpAsmParser &parser, SmallVector<int32_t> &words) {
    StringAttr name;
    if (parser.parseSymbolName(name))
      return failure();
    words.push_back(index.insert({name, index.size()}).first->second);
    return success();
  }
  ArrayAttr attribute(Builder &b) const {
    SmallVector<Attribute> symbols;
    for (auto &[name, i] : index)
      symbols.push_back(FlatSymbolRefAttr::get(name));
    return b.getArrayAttr(symbols);
  }
};
} // namespace

static ParseResult parseWord(OpAsmParser &parser, SmallVector<int32_t> &words) {
  uint32_t word;
  if (parser.parseInteger(word))
    return failure();
  words.push_back(word);
  return success();
}
static ParseResult parseWordAfter(OpAsmParser &parser, StringRef keyword, SmallVector<int32_t> &words) {
  return failure(parser.parseKeyword(keyword) || parseWord(parser, words));
}
static ParseResult parseOffset(OpAsmParser &parser, SmallVector<int32_t> &words) {
  return failure(parser.parsePlus() || parseWord(parser, words));
}

/// Whether a table of so many entries is left out of a dump.
static bool elided(OpAsmPrinter &printer, size_t entries, StringRef what) {
  auto limit = OpPrintingFlags().getLargeElementsAttrLimit();
  if (!limit || int64_t(entries) <= *limit)
    return false;
  printer << "elided " << entries << ' ' << what;
  return true;
}
static ParseResult refuseElided(OpAsmParser &parser) {
  auto location = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword("elided")))
    return success();
  return parser.emitError(location) << "the table was elided when this text was printed; print it with "
                                       "-o FILE or --mlir-elide-elementsattrs-if-larger=N";
}

/// `0x5c000`
static ParseResult parseAddress(OpAsmParser &parser, IntegerAttr &address) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  address = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}
static void printAddress(OpAsmPrinter &printer, Operation *, IntegerAttr address) {
  printer << "0x";
  printer.getStream().write_hex(address ? address.getInt() : 0);
}

// View: its number of axes n, then n extents, the first element of the source and n strides, and
// the same of the destination. Absent: elements keep their row-major number.
//   view [2, 4, 8] from 0 by [32, 8, 1] to 16 by [8, 32, 1]
static ParseResult parseView(OpAsmParser &parser, DenseI64ArrayAttr &view) {
  if (failed(parser.parseOptionalKeyword("view")))
    return success();
  SmallVector<int64_t> words{0};
  auto number = [&]() -> ParseResult {
    uint64_t n;
    if (parser.parseInteger(n))
      return failure();
    words.push_back(n);
    return success();
  };
  auto list = [&](size_t &count) -> ParseResult {
    size_t before = words.size();
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, number))
      return failure();
    count = words.size() - before;
    return success();
  };
  size_t axes, strides;
  if (list(axes))
    return failure();
  words[0] = axes;
  for (StringRef side : {"from", "to"}) {
    if (parser.parseKeyword(side) || number() || parser.parseKeyword("by"))
      return failure();
    auto location = parser.getCurrentLocation();
    if (list(strides))
      return failure();
    if (strides != axes)
      return parser.emitError(location) << "expected " << axes << " strides, one for each axis, found " << strides;
  }
  view = parser.getBuilder().getDenseI64ArrayAttr(words);
  return success();
}
static void printView(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr view) {
  if (!view)
    return;
  ArrayRef<int64_t> words = view.asArrayRef();
  // A malformed one reads as zeros, as tables do.
  auto next = [&]() -> uint64_t {
    if (words.empty())
      return 0;
    uint64_t word = words.front();
    words = words.drop_front();
    return word;
  };
  uint64_t axes = std::min<uint64_t>(next(), view.size());
  auto list = [&] {
    printer << '[';
    for (uint64_t i = 0; i < axes; ++i)
      printer << (i ? ", " : "") << next();
    printer << ']';
  };
  printer << "view ";
  list();
  for (StringRef side : {" from ", " to "}) {
    printer << side << next() << " by ";
    list();
  }
}

/// `(@a, @b)`
static ParseResult parseBuffers(OpAsmParser &parser, ArrayAttr &buffers) {
  SmallVector<Attribute> list;
  auto one = [&]() -> ParseResult {
    StringAttr name;
    if (parser.parseSymbolName(name))
      return failure();
    list.push_back(FlatSymbolRefAttr::get(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, one))
    return failure();
  buffers = parser.getBuilder().getArrayAttr(list);
  return success();
}
static void printBuffers(OpAsmPrinter &printer, Operation *, ArrayAttr buffers) {
  printer << '(';
  llvm::interleaveComma(buffers, printer);
  printer << ')';
}

/// `{0 to 2: [12, 4], 3: [8, 4]}`: tiles in a row with equal words share an entry. The table that
/// the records of some kernels end with: `{0: [2] table [0, 64, 8, 128, 0, 4]}`, on all tiles of
/// one length.
static ParseResult parseCalls(OpAsmParser &parser, DenseI32ArrayAttr &tiles, DenseI32ArrayAttr &words,
                              IntegerAttr &table) {
  SmallVector<int32_t> tileList, wordList;
  std::optional<size_t> tableLength;
  auto one = [&]() -> ParseResult {
    uint32_t first, last;
    auto location = parser.getCurrentLocation();
    if (refuseElided(parser) || parser.parseInteger(first))
      return failure();
    last = first;
    if (succeeded(parser.parseOptionalKeyword("to")) && parser.parseInteger(last))
      return failure();
    // A bound on what a short text may make.
    constexpr uint32_t limit = 0xffff;
    if (last < first)
      return parser.emitError(location) << "tiles " << first << " to " << last << " are not a range";
    if (last > limit)
      return parser.emitError(location) << "tile " << last << " is beyond " << limit << ", the limit";
    SmallVector<int32_t> row;
    if (parser.parseColon() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return parseWord(parser, row); }))
      return failure();
    size_t before = row.size();
    auto tableLocation = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword("table")) &&
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
          return failure(refuseElided(parser) || parseWord(parser, row));
        }))
      return failure();
    size_t length = row.size() - before;
    if (tableLength.value_or(length) != length)
      return parser.emitError(tableLocation)
             << "tile " << first << " has a table of " << length << " words, tiles before it one of " << *tableLength;
    tableLength = length;
    for (uint32_t tile = first; tile <= last; ++tile) {
      tileList.push_back(tile);
      wordList.append(row);
    }
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, one))
    return failure();
  tiles = parser.getBuilder().getDenseI32ArrayAttr(tileList);
  words = parser.getBuilder().getDenseI32ArrayAttr(wordList);
  if (tableLength.value_or(0) > 0)
    table = parser.getBuilder().getI64IntegerAttr(*tableLength);
  return success();
}
static void printCalls(OpAsmPrinter &printer, Operation *, DenseI32ArrayAttr tiles, DenseI32ArrayAttr words,
                       IntegerAttr table) {
  auto list = tiles.asArrayRef();
  size_t arity = list.empty() ? 0 : words.size() / list.size();
  size_t tableLength = table ? std::min<uint64_t>(table.getInt(), arity) : 0;
  auto row = [&](size_t i) { return words.asArrayRef().slice(i * arity, arity); };
  SmallVector<std::pair<size_t, size_t>> entries;
  for (size_t i = 0, end; i < list.size(); i = end) {
    for (end = i + 1; end < list.size() && uint32_t(list[end]) == uint32_t(list[end - 1]) + 1 && row(end) == row(i);)
      ++end;
    entries.push_back({i, end});
  }
  printer << '{';
  auto call = [&](std::pair<size_t, size_t> entry) {
    printer << uint32_t(list[entry.first]);
    if (entry.second - entry.first > 1)
      printer << " to " << uint32_t(list[entry.second - 1]);
    auto word = [&](int32_t word) { printer << uint32_t(word); };
    printer << ": [";
    llvm::interleaveComma(row(entry.first).drop_back(tableLength), printer, word);
    printer << ']';
    if (tableLength == 0)
      return;
    printer << " table [";
    if (!elided(printer, tableLength, "words"))
      llvm::interleaveComma(row(entry.first).take_back(tableLength), printer, word);
    printer << ']';
  };
  if (entries.size() == 1) {
    call(entries.front());
  } else if (!entries.empty() && !elided(printer, entries.size(), "calls")) {
    printer.increaseIndent();
    for (auto entry : entries) {
      printer.printNewline();
      call(entry);
      if (entry != entries.back())
        printer << ',';
    }
    printer.decreaseIndent();
    printer.printNewline();
  }
  printer << '}';
}

// Copies: for each copy source buffer, destination buffer and transfers; for each transfer source
// tile, offset, words and destinations; for each of those tile and offset. Lists start with
// their length.
//   copy @h to @x [
//     0+0 x 40 -> 1+0 and 2+0, 0+160 x 40 -> 3+0,
//     1+0 x 40 -> 0+160
//   ]
// Schedule: horizon, bound, binding tile, rows; for each row tile, horizon and events; for each
// event its kind and fields.
//   schedule horizon 110 bound 96 by tile 3 {
//     tile 0 until 110 [send 0 @h+0 x 40 direction 1, mux 5 from 2, mux 45 off, point 61 @x+0]
// In phases with 64-bit items also `pair 5 from 2`, `pair 69 off` and `format 61 is 1`.
//   }
enum EventKind : uint32_t { Send, Mux, Point, Pair, Format };
constexpr uint32_t Nobody = ~0u;

static ParseResult parseTransfer(OpAsmParser &parser, SmallVector<int32_t> &words) {
  if (refuseElided(parser) || parseWord(parser, words) || parseOffset(parser, words) ||
      parseWordAfter(parser, "x", words) || parser.parseArrow())
    return failure();
  size_t count = words.size();
  words.push_back(0);
  do {
    if (parseWord(parser, words) || parseOffset(parser, words))
      return failure();
    ++words[count];
  } while (succeeded(parser.parseOptionalKeyword("and")));
  return success();
}

static ParseResult parseEvent(OpAsmParser &parser, BufferTable &buffers, SmallVector<int32_t> &words) {
  StringRef kind;
  auto location = parser.getCurrentLocation();
  if (refuseElided(parser) || parser.parseKeyword(&kind))
    return failure();
  if (kind == "send") {
    words.push_back(Send);
    return failure(parseWord(parser, words) || buffers.parse(parser, words) || parseOffset(parser, words) ||
                   parseWordAfter(parser, "x", words) || parseWordAfter(parser, "direction", words));
  }
  if (kind == "mux" || kind == "pair") {
    words.push_back(kind == "mux" ? Mux : Pair);
    if (parseWord(parser, words))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("off"))) {
      words.push_back(Nobody);
      return success();
    }
    return parseWordAfter(parser, "from", words);
  }
  if (kind == "point") {
    words.push_back(Point);
    return failure(parseWord(parser, words) || buffers.parse(parser, words) || parseOffset(parser, words));
  }
  if (kind == "format") {
    words.push_back(Format);
    return failure(parseWord(parser, words) || parseWordAfter(parser, "is", words));
  }
  return parser.emitError(location) << "unknown event '" << kind
                                    << "', one of: send, mux, point, pair, format";
}

static ParseResult parseExchange(OpAsmParser &parser, ArrayAttr &bufferList, DenseI32ArrayAttr &copyTable,
                                 DenseI32ArrayAttr &scheduleTable) {
  BufferTable buffers;
  SmallVector<int32_t> copies{0}, schedule;
  auto counted = [&](SmallVector<int32_t> &words, function_ref<ParseResult()> one) -> ParseResult {
    size_t count = words.size();
    words.push_back(0);
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
      ++words[count];
      return one();
    });
  };
  if (parser.parseLBrace())
    return failure();
  while (succeeded(parser.parseOptionalKeyword("copy"))) {
    ++copies[0];
    if (buffers.parse(parser, copies) || parser.parseKeyword("to") || buffers.parse(parser, copies) ||
        counted(copies, [&] { return parseTransfer(parser, copies); }))
      return failure();
  }
  if (parser.parseRBrace())
    return failure();
  if (succeeded(parser.parseOptionalKeyword("schedule"))) {
    if (parseWordAfter(parser, "horizon", schedule) || parseWordAfter(parser, "bound", schedule) ||
        parser.parseKeyword("by") || parseWordAfter(parser, "tile", schedule) || parser.parseLBrace())
      return failure();
    size_t count = schedule.size();
    schedule.push_back(0);
    if (refuseElided(parser))
      return failure();
    while (succeeded(parser.parseOptionalKeyword("tile"))) {
      ++schedule[count];
      if (parseWord(parser, schedule) || parseWordAfter(parser, "until", schedule) ||
          counted(schedule, [&] { return parseEvent(parser, buffers, schedule); }))
        return failure();
    }
    if (parser.parseRBrace())
      return failure();
    scheduleTable = parser.getBuilder().getDenseI32ArrayAttr(schedule);
  }
  bufferList = buffers.attribute(parser.getBuilder());
  copyTable = parser.getBuilder().getDenseI32ArrayAttr(copies);
  return success();
}

static void printExchange(OpAsmPrinter &printer, Operation *, ArrayAttr buffers, DenseI32ArrayAttr copyTable,
                          DenseI32ArrayAttr scheduleTable) {
  auto buffer = [&](uint32_t i) {
    if (i < buffers.size())
      printer << buffers[i];
    else
      printer << "@?";
  };
  auto separate = [&](bool first) {
    if (!first)
      printer << ", ";
  };
  Words w{copyTable.asArrayRef()};
  printer << '{';
  printer.increaseIndent();
  w.repeat([&](bool) {
    printer.printNewline();
    printer << "copy ";
    buffer(w.next());
    printer << " to ";
    buffer(w.next());
    printer << " [";
    // A line for each run of one sender; what counts for leaving it out is the number of runs.
    std::string lines;
    llvm::raw_string_ostream out(lines);
    SmallVector<size_t> starts;
    std::optional<uint32_t> sender;
    w.repeat([&](bool first) {
      auto source = w.next();
      out << (first ? "" : ", ");
      if (source != sender)
        starts.push_back(lines.size());
      sender = source;
      out << source << '+' << w.next();
      out << " x " << w.next();
      out << " -> ";
      w.repeat([&](bool first) {
        out << (first ? "" : " and ") << w.next() << '+';
        out << w.next();
      });
    });
    if (starts.size() < 2) {
      printer << lines;
    } else if (!elided(printer, starts.size(), "senders")) {
      starts.push_back(lines.size());
      printer.increaseIndent();
      for (size_t i = 0; i + 1 < starts.size(); ++i) {
        printer.printNewline();
        printer << StringRef(lines).slice(starts[i], starts[i + 1]).rtrim();
      }
      printer.decreaseIndent();
      printer.printNewline();
    }
    printer << ']';
  });
  printer.decreaseIndent();
  printer.printNewline();
  printer << '}';
  if (!scheduleTable)
    return;
  Words s{scheduleTable.asArrayRef()};
  printer << " schedule horizon " << s.next();
  printer << " bound " << s.next();
  printer << " by tile " << s.next();
  printer << " {";
  printer.increaseIndent();
  auto rows = s.words.empty() ? 0 : s.words.front();
  auto limit = OpPrintingFlags().getLargeElementsAttrLimit();
  if (limit && rows > *limit) {
    printer.printNewline();
    elided(printer, rows, "rows");
  } else {
    s.repeat([&](bool) {
      printer.printNewline();
      printer << "tile " << s.next();
      printer << " until " << s.next();
      printer << " [";
      s.repeat([&](bool first) {
        separate(first);
        auto kind = s.next();
        switch (kind) {
        case Send:
          printer << "send " << s.next() << ' ';
          buffer(s.next());
          printer << '+' << s.next();
          printer << " x " << s.next();
          printer << " direction " << s.next();
          break;
        case Mux:
        case Pair: {
          printer << (kind == Mux ? "mux " : "pair ") << s.next();
          auto source = s.next();
          if (source == Nobody)
            printer << " off";
          else
            printer << " from " << source;
          break;
        }
        case Format:
          printer << "format " << s.next();
          printer << " is " << s.next();
          break;
        default:
          printer << "point " << s.next() << ' ';
          buffer(s.next());
          printer << '+' << s.next();
        }
      });
      printer << ']';
    });
  }
  printer.decreaseIndent();
  printer.printNewline();
  printer << '}';
}

#include "TileDialect.cpp.inc"
#define GET_OP_CLASSES
#include "TileOps.cpp.inc"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tile, tile, tile::TileDialect)
