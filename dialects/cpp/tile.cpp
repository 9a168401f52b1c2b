// Registration of dialect tile; its meaning is in dialects/src/tile.rs.
#include "hooks.h"

#include "mlir/CAPI/Registration.h"

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

#include "TileDialect.cpp.inc"
#define GET_OP_CLASSES
#include "TileOps.cpp.inc"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tile, tile, tile::TileDialect)
