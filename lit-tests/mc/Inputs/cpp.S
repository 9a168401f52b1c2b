#include "ipu21.h"
#ifdef GONE
#error "-U did nothing"
#endif
  ld32 $m0, $BASE, $mzero, 0 /* a macro behind `$` */
  f16v4hihov4amp $a0:1, $a2:3, $a4:5, TAMP_F16V4_E4_P1
  uput CSR_W_FP_CLR__INDEX, $a0
  setzi $m5, __IPU_ARCH_VERSION__
