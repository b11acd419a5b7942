#pragma once
// Choosing tokens: temperature, top-k, top-p, then Gumbel-max with counter-based noise.
//
//   z_j = x_j / temperature       key_j = z_j - log(-log u_j)       token = first argmax over the kept
//   entries u_j = ((word >> 9) + 1/2) * 2^-23, word j%4 of Philox(seed, request, pos << 32 | j/4)
// Entries are ranked by logit, ties by index. top_k keeps the first k; top_p keeps the shortest prefix of
// what is left whose probability (renormalised over what is left) reaches top_p.
#include "ops/args.h"

namespace minite::ref {

/// Bytes of scratch one thread needs.
int64_t choose_scratch(int64_t vocab);
/// Chooses the token of row `r`; `order` is scratch of choose_scratch() bytes.
void choose_row(const ChooseArgs& args, int64_t r, int32_t* order);

}  // namespace minite::ref
