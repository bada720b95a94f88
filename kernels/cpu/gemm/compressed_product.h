// Products of prepared rows with bf16 panels that may be compressed (compressed_panel.h).
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_PRODUCT_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_PRODUCT_H_

#include "kernels/core/matrix.h"
#include "kernels/cpu/gemm/compressed_panel.h"
#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prepared_rows.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Computes PanelProduct for a bf16 weight. Whether a panel is compressed or plain, an output is the
// same sum of the same numbers, so it has the same bits. Defined only if kCompressesBF16.
void CompressedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                       float* sums);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_PRODUCT_H_
