// Products of prepared rows with bf16 panels on the tiles of AMX.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_AMX_PRODUCT_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_AMX_PRODUCT_H_

#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/simd/amx_tiles.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// PanelProduct for bf16 weights. A sum runs over k in runs of 32, each of which a tile product adds
// (amx_tiles.h). This order is the same for every number of rows. REQUIRES: kHasTiles
void AmxProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                float* sums);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_AMX_PRODUCT_H_
