// Products of prepared rows with int8 and int4 panels.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_QUANTISED_PRODUCT_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_QUANTISED_PRODUCT_H_

#include "kernels/core/matrix.h"
#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prepared_rows.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Computes PanelProduct for an int8 or int4 weight. Each output is one f32 sum over its groups in
// their order, so it has the same bits in every block.
void QuantisedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                      float* sums);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_QUANTISED_PRODUCT_H_
