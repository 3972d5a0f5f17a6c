#include <mpi.h>
int main(void) {
  int rank, a[4] = {0}, b[4]; MPI_Comm twin; MPI_Request q[2]; MPI_Win w;
  MPI_Init(0, 0); MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(MPI_IN_PLACE, a, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Allreduce(a, b, 3, MPI_INT, MPI_SUM, twin);
  MPI_Ibcast(a, 2, MPI_INT, 0, MPI_COMM_WORLD, q); MPI_Wait(q, MPI_STATUS_IGNORE);
  MPI_Gather(rank ? a : MPI_IN_PLACE, 2, MPI_INT, a, 2, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Send_init(a, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, q);
  MPI_Recv_init(b, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, q + 1);
  for (int i = 0; i < 3; i++) { MPI_Startall(2, q); MPI_Waitall(2, q, MPI_STATUSES_IGNORE); }
  MPI_Request_free(q); MPI_Request_free(q + 1);
  MPI_Sendrecv(a, 4, MPI_INT, MPI_PROC_NULL, 1, b, 4, MPI_INT, MPI_PROC_NULL, 1, twin, 0);
  PMPI_Barrier(MPI_COMM_WORLD); /* as Fortran's interfaces do */
  MPI_Win_create(b, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w); MPI_Win_fence(0, w);
  MPI_Put(a, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, w); MPI_Win_fence(0, w);
  MPI_Win_free(&w); MPI_Finalize(); return 0; }
