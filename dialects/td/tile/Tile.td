// Dialect tile: what each tile does in which superstep.
#ifndef TILE_TD
#define TILE_TD

include "common/Hooks.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let summary = "Programs of tiles, superstep by superstep";
  let cppNamespace = "::tile";
}

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits # [RustVerified]>;

#endif
